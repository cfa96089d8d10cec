"""How the demo's trunk and heads were trained: data, splits, features, training and packing. See README.md here."""
