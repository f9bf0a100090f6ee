// ws.js: a WebSocket client for the tests, with the package ws: what Node itself has differs by its version.
//
//   ws.js URL [--protocol NAME] [--send TEXT]... [--binary HEX]... [--each TEXT] [--close-after TEXT]
//
// Prints each message as "text JSON" or "binary HEX", then "closed CODE". What is to be sent goes out once the connection
// is open, and what --each says after each message that comes. --close-after closes when that text has come.
const WebSocket = require('ws');

const [url, ...args] = process.argv.slice(2);
const sent = [];
let protocol = [];
let last = null;
let each = null;
for (let i = 0; i < args.length; i += 2) {
  const value = args[i + 1];
  switch (args[i]) {
    case '--protocol': protocol = [value]; break;
    case '--send': sent.push(value.replaceAll('\\n', '\n')); break;
    case '--binary': sent.push(Buffer.from(value, 'hex')); break;
    case '--each': each = value.replaceAll('\\n', '\n'); break;
    case '--close-after': last = value; break;
    default: throw new Error(`no such option: ${args[i]}`);
  }
}
const ws = new WebSocket(url, protocol);
ws.binaryType = 'arraybuffer';
ws.onopen = () => sent.forEach((m) => ws.send(m));
ws.onmessage = ({ data }) => {
  const text = typeof data === 'string';
  console.log(text ? `text ${JSON.stringify(data)}` : `binary ${Buffer.from(data).toString('hex')}`);
  if (each !== null) ws.send(each);
  if (last !== null && text && data.includes(last)) ws.close(1000);
};
ws.onerror = (e) => console.log(`error ${e.message || (e.error && e.error.message) || ''}`);
ws.onclose = (e) => console.log(`closed ${e.code}`);
