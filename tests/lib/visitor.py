"""visitor.py URL RATE: asks a page so many times a second, each time by a connection of its own and without a second try.

It goes on until SIGTERM. Then it prints how many requests there were and how many were lost, and up to ten lines of why. A
request is lost without a whole answer of status 200 within 20 seconds. It ends with 1 if any was.
"""
import collections
import http.client
import signal
import sys
import threading
import time
import urllib.parse

THREADS = 8
url, rate = urllib.parse.urlparse(sys.argv[1]), float(sys.argv[2])
stopped = threading.Event()
lock = threading.Lock()
answered, lost = 0, collections.Counter()


def ask():
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    try:
        connection.request('GET', url.path)
        answer = connection.getresponse()
        answer.read()
        return '' if answer.status == 200 else f'status {answer.status}'
    except (OSError, http.client.HTTPException) as error:
        return f'{type(error).__name__}: {error}'
    finally:
        connection.close()


def visit(number):
    """A share of the requests, each at its own time. A slow one puts off those after it."""
    global answered
    due = time.monotonic() + number / rate
    while not stopped.wait(max(0, due - time.monotonic())):
        due = max(due + THREADS / rate, time.monotonic())
        begun = time.monotonic()
        why = ask()
        with lock:
            if why:
                lost[f'{why} after {time.monotonic() - begun:.1f} s' if 'timed' in why else why] += 1
            else:
                answered += 1


signal.signal(signal.SIGTERM, lambda *_: stopped.set())
threads = [threading.Thread(target=visit, args=(n,)) for n in range(THREADS)]
for thread in threads:
    thread.start()
print('visiting', flush=True)
stopped.wait()
for thread in threads:
    thread.join()
print(f'requests {answered + lost.total()} lost {lost.total()}')
for why, count in lost.most_common(10):
    print(f'{count} times {why}')
sys.exit(1 if lost else 0)
