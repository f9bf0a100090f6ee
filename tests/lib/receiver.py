"""A receiver of log drivers: receiver.py KIND PORT FILE. It appends what comes by TCP to FILE, by KIND:

raw         as it is
http        the bodies of requests, unpacked, which it answers as an event collector does
fluentd     the tag and the text of each record, which it acknowledges
cloudwatch  the group, the stream, the time and the text in JSON of each event, as CloudWatch Logs does. It knows the group
            "there", and wants requests that are signed with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of its environment.

FILE.mode, where it exists, says what is wrong with those that answer: garbage is an answer that makes no sense, to what is not
taken; closes ends the connection after each message; mute takes messages into FILE.mute and does not answer. A FILE that cannot
be written is status 503, or the end of the connection, and nothing of the message is in it."""

import gzip
import hashlib
import hmac
import http.server
import json
import os
import re
import socketserver
import sys
import threading

kind, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
lock = threading.Lock()
GARBAGE = b"\xc1 is the one byte that MessagePack never has\r\n\r\n"


def mode():
    try:
        with open(path + ".mode") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def take(data, file=out):
    """Writes all of it and returns True, or nothing."""
    with lock:
        before = os.fstat(file).st_size
        try:
            while data:
                data = data[os.write(file, data):]
            return True
        except OSError:
            os.ftruncate(file, before)
            return False


class Raw(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1 << 16):
            os.write(out, data)


class Fluentd(socketserver.StreamRequestHandler):
    def handle(self):
        try:
            while self.serve(unpack(self.rfile.read)):
                pass
        except EOFError:
            pass

    def serve(self, message):
        """Deals with a message, and tells whether the connection goes on."""
        tag, entries, options = message
        now = mode()
        if now == "garbage":
            self.wfile.write(GARBAGE)
            return False
        reader = Reader(entries)
        texts = b"".join(b"%s %s\n" % (tag, unpack(reader.read)[1][b"log"]) for _ in range(options[b"size"]))
        if now == "mute":
            take(texts, os.open(path + ".mute", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
            self.rfile.read(1)  # the end
            return False
        if not take(texts):
            return False
        if chunk := options.get(b"chunk"):
            self.wfile.write(b"\x81\xa3ack" + bytes([0xA0 + len(chunk)]) + chunk)
        return now != "closes"


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def read(self, size):
        self.at += size
        return self.data[self.at - size:self.at]


def unpack(read):
    """Reads a value of MessagePack. Texts stay bytes."""

    def number(size):
        data = read(size)
        if len(data) < size:
            raise EOFError
        return int.from_bytes(data, "big")

    first = number(1)
    if first < 0x80:
        return first
    if first < 0x90 or first in (0xDE, 0xDF):
        count = first & 0x0F if first < 0x90 else number(2 << (first - 0xDE))
        return {unpack(read): unpack(read) for _ in range(count)}
    if first < 0xA0 or first in (0xDC, 0xDD):
        return [unpack(read) for _ in range(first & 0x0F if first < 0xA0 else number(2 << (first - 0xDC)))]
    if first < 0xC0:
        return read(first & 0x1F)
    if 0xC4 <= first <= 0xC6:
        return read(number(1 << (first - 0xC4)))
    if 0xD9 <= first <= 0xDB:
        return read(number(1 << (first - 0xD9)))
    if 0xCC <= first <= 0xCF:
        return number(1 << (first - 0xCC))
    if 0xD0 <= first <= 0xD3:  # times are not negative
        return number(1 << (first - 0xD0))
    if first == 0xD7:  # an extension of eight bytes, with its type
        return read(9)
    raise ValueError(f"no such type here: {first:#x}")


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head of an answer and its body are two packets

    def answer(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        now = mode()
        if now == "garbage":
            self.wfile.write(GARBAGE)
            self.close_connection = True
            return
        self.close_connection = self.close_connection or now == "closes"
        status, reply = self.reply()
        reply = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_POST = do_OPTIONS = do_GET = answer

    def reply(self):
        if self.headers.get("Content-Encoding") == "gzip":
            self.body = gzip.decompress(self.body)
        if take(self.body + b"\n"):
            return 200, {"text": "Success", "code": 0}
        return 503, {"text": "Server is busy", "code": 9}

    def log_message(self, *_):
        pass


class Cloudwatch(Http):
    known = {"there"}  # groups, and streams as GROUP/STREAM

    def reply(self):
        if not self.is_signed():
            return 400, {"__type": "InvalidSignatureException", "message": "The request signature does not match"}
        action, asked = self.headers["X-Amz-Target"].removeprefix("Logs_20140328."), json.loads(self.body)
        group = asked["logGroupName"]
        name = group if action == "CreateLogGroup" else group + "/" + asked["logStreamName"]
        if action == "PutLogEvents":
            return self.put(name, asked["logEvents"])
        if name in self.known:
            return 400, {"__type": "ResourceAlreadyExistsException", "message": name}
        if action == "CreateLogStream" and group not in self.known:
            return 400, {"__type": "ResourceNotFoundException", "message": "The specified log group does not exist."}
        self.known.add(name)
        return 200, {}

    def put(self, name, events):
        times = [event["timestamp"] for event in events]
        if name not in self.known:
            return 400, {"__type": "ResourceNotFoundException", "message": "The specified log stream does not exist."}
        if not events or times != sorted(times):
            return 400, {"__type": "InvalidParameterException", "message": "Log events are not in their order."}
        lines = "".join(f"{name} {event['timestamp']} {json.dumps(event['message'])}\n" for event in events)
        if take(lines.encode()):
            return 200, {"nextSequenceToken": "none"}
        return 503, {"__type": "ServiceUnavailableException", "message": "no room"}

    def is_signed(self):
        """Checks the signature as the service describes it."""
        says = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/((\d+)/([^/]+)/logs/aws4_request), SignedHeaders=([^,]+), Signature=(\w+)",
            self.headers.get("Authorization", ""),
        )
        if not says or says[1] != os.environ["AWS_ACCESS_KEY_ID"]:
            return False
        canonical = "POST\n/\n\n" + "".join(f"{name}:{self.headers[name]}\n" for name in says[5].split(";"))
        canonical += f"\n{says[5]}\n{hashlib.sha256(self.body).hexdigest()}"
        text = f"AWS4-HMAC-SHA256\n{self.headers['X-Amz-Date']}\n{says[2]}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = b"AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"].encode()
        for part in (says[3], says[4], "logs", "aws4_request", text):
            key = hmac.digest(key, part.encode(), "sha256")
        return key.hex() == says[6]


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


handlers = {"raw": Raw, "http": Http, "fluentd": Fluentd, "cloudwatch": Cloudwatch}
Server(("127.0.0.1", port), handlers[kind]).serve_forever()
