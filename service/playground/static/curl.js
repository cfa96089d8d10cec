// The call of the page as a command for a shell.

/** A word of a POSIX shell that means exactly this text. */
export function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

export function curl(origin, endpoint, item) {
  return `curl -s ${quoted(origin + endpoint)} -H 'content-type: application/json' -d ${quoted(JSON.stringify(item))}`;
}
