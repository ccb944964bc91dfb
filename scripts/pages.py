#!/usr/bin/env python3
"""Measures the cost of open pages, and how soon a page shows content, on a host with many containers. Needs root.

Usage: scripts/pages.py [--noctule FILE] [--for SECONDS] [--before SECONDS] [--interval TIME] [--pages N]
                        [--containers N]

Starts containers with one process each, and an agent. Measures a page in Chromium: first paint, first figures, longest
task and longest gap between frames. Then runs clients that send the requests of a page. Prints the agent's CPU use
without a page, with one page and with all pages. Prints its memory over time: before the first page (`--before`), while
all pages are open (`--for`), and for a quarter of that time after they are closed. The agent's history fills up within
900 intervals, so `--before 1000`, or `--interval 250ms --before 300`, shows what pages add to a full history. The
script checks no limits. Results are in docs/bench.md.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

# Requests of app.js with each batch, and with every tenth batch.
EACH = ("/api/v1/history?seconds=300&steps=150&owners=101&sort=cpu", "/api/v1/events?limit=200")
TENTH = ("/api/v1/features", "/api/v1/node")
TICKS = os.sysconf("SC_CLK_TCK")


def hierarchies():
    """Returns the cgroup hierarchies in which to create groups: the v1 controllers, or v2."""
    v1 = [f"/sys/fs/cgroup/{name}" for name in ("cpu", "cpuacct") if os.path.isdir(f"/sys/fs/cgroup/{name}")]
    return v1 or ["/sys/fs/cgroup"]


class Containers:
    """Cgroups named like Docker's, each with a process that wakes up twice a second."""

    def __init__(self, count):
        self.folders, self.children = [], []
        self.parents = []
        for root in hierarchies():
            if not os.path.isdir(f"{root}/docker"):
                os.mkdir(f"{root}/docker")
                self.parents.append(f"{root}/docker")
        for number in range(count):
            name = f"docker/{os.getpid():08x}{number:08x}{'c0ffee42' * 6}"
            folders = [f"{root}/{name}" for root in hierarchies()]
            for folder in folders:
                os.mkdir(folder)
            self.folders += folders
            self.children.append(self.child(folders))

    @staticmethod
    def child(folders):
        child = os.fork()
        if child == 0:
            for folder in folders:
                with open(f"{folder}/cgroup.procs", "w", encoding="ascii") as procs:
                    procs.write(str(os.getpid()))
            parent = os.getppid()
            while os.getppid() == parent:
                time.sleep(0.5)
            os._exit(0)
        return child

    def close(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
        for child in self.children:
            os.waitpid(child, 0)
        for folder in self.folders + self.parents:
            for _ in range(100):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.02)


class Agent:
    """A running agent."""

    def __init__(self, binary, interval):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        command = [binary, "run", "--listen", self.address, "--interval", interval]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while self.status("/api/v1/waits") != 200:
            assert self.process.poll() is None, "the agent has ended"
            time.sleep(0.2)

    def status(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}") as answer:
                return answer.status
        except (OSError, urllib.error.HTTPError) as error:
            return getattr(error, "code", 0)

    def cpu(self):
        """Returns the CPU time so far in seconds."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self):
        """Returns the resident memory in MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf8") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) / 1024

    def watch(self, seconds, times=20):
        """Returns the CPU use over some seconds, and memory samples from that time."""
        before, since, memory = self.cpu(), time.monotonic(), []
        for _ in range(times):
            time.sleep(seconds / times)
            memory.append(self.memory())
        return (self.cpu() - before) / (time.monotonic() - since), memory

    def use(self, seconds):
        """Returns the CPU use over some seconds."""
        before, since = self.cpu(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu() - before) / (time.monotonic() - since)

    def close(self):
        self.process.terminate()
        self.process.wait()


class Page(threading.Thread):
    """A client that sends the requests of a page."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends, self.answers, self.bytes = address, threading.Event(), 0, 0

    def run(self):
        connection = http.client.HTTPConnection(self.address)
        stream = None
        ticks = 0
        while not self.ends.is_set():
            if stream is None:
                opened = http.client.HTTPConnection(self.address)
                opened.request("GET", "/api/v1/stream")
                stream = opened.getresponse()
            try:
                line = stream.readline()
            except (http.client.IncompleteRead, ConnectionError):
                line = b""
            if not line:
                # The server ends a stream from time to time.
                stream = None
            if line.replace(b" ", b"").strip() != b"event:tick":
                continue
            for path in EACH + (TENTH if ticks % 10 == 0 else ()):
                try:
                    self.ask(connection, path)
                except (http.client.RemoteDisconnected, ConnectionError):
                    # The server closes a connection after 30 s. A browser then opens a new one.
                    connection.close()
                    self.ask(connection, path)
            ticks += 1

    def ask(self, connection, path):
        connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        self.bytes += len(answer.read())
        assert answer.status == 200, (path, answer.status)
        self.answers += 1


class Browser:
    """Headless Chromium."""

    def __init__(self):
        command = ["chromedriver", "--port=0"]
        self.driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = next(found[1] for line in self.driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
        self.address = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"]
        options = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
        answer = self.ask("/session", {"capabilities": {"alwaysMatch": options}})
        self.address += f"/session/{answer['sessionId']}"

    def ask(self, path, body=None, method="POST"):
        headers = {"Content-Type": "application/json"}
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(self.address + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def run(self, script):
        return self.ask("/execute/sync", {"script": script, "args": []})

    def close(self):
        self.ask("", method="DELETE")
        self.driver.terminate()
        self.driver.wait()


# Records long tasks and gaps between frames, from the start of the page.
WATCH = """
    window.tasks = []; window.gaps = []; let before = performance.now();
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((it) => it.duration)))
        .observe({type: "longtask", buffered: true});
    const frame = (now) => { gaps.push(now - before); before = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
    const figures = setInterval(() => {
        if (!document.querySelector("#cpu canvas")) return;
        window.figures = performance.now(); clearInterval(figures);
    }, 5);
"""


def paint(agent, seconds, tries=5):
    """Opens the page several times, and then measures it for some seconds."""
    browser = Browser()
    try:
        browser.ask("/goog/cdp/execute", {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": WATCH}})
        paints, figures = [], []
        for _ in range(tries):
            browser.ask("/goog/cdp/execute", {"cmd": "Network.clearBrowserCache", "params": {}})
            browser.ask("/url", {"url": "about:blank"})
            browser.ask("/url", {"url": f"http://{agent.address}/"})
            while not (first := browser.run("return window.figures ?? null")):
                time.sleep(0.05)
            entry = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
            paints.append(browser.run(entry))
            figures.append(first)
        browser.run("tasks.length = 0; gaps.length = 0")
        use = agent.use(seconds)
        tasks, gaps = browser.run("return [tasks, gaps]")
        print(f"first paint (ms): {[round(it) for it in paints]}, median {statistics.median(paints):.0f}")
        print(f"first figures (ms): {[round(it) for it in figures]}, median {statistics.median(figures):.0f}")
        print(f"in {seconds} s: longest task {max(tasks, default=0):.0f} ms ({len(tasks)} over 50 ms), "
              f"longest gap between frames {max(gaps):.0f} ms of {len(gaps)} frames")
        return use
    finally:
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noctule", default="target/release/noctule")
    parser.add_argument("--for", dest="seconds", type=int, default=600)
    parser.add_argument("--before", type=int, default=30)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--containers", type=int, default=1000)
    args = parser.parse_args()
    # Lets the cleanup below run on SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    part = max(5, min(30, args.seconds // 4))
    containers = Containers(args.containers)
    agent = None
    try:
        agent = Agent(args.noctule, args.interval)
        alone, without = agent.watch(args.before)
        browser = paint(agent, part)
        pages = [Page(agent.address) for _ in range(args.pages)]
        # The browser is closed by now, because the agent would count its threads too.
        pages[0].start()
        time.sleep(5)
        one = agent.use(part)
        for page in pages[1:]:
            page.start()
        time.sleep(5)
        many, memory = agent.watch(args.seconds)
        assert all(page.is_alive() for page in pages), "a page got no answer"
        for page in pages:
            page.ends.set()
        again, after = agent.watch(args.seconds // 4)
        print(f"agent: {alone:.2%} of a CPU alone, {browser:.2%} with the page in Chromium, {one:.2%} with one page, "
              f"{many:.2%} with {args.pages} pages ({(many - alone) / args.pages:.3%} for each), {again:.2%} after them")
        print(f"answers: {sum(page.answers for page in pages)}, {sum(page.bytes for page in pages) >> 20} MiB")
        for name, values in (("before", without), ("with", memory), ("after", after)):
            print(f"memory (MiB) {name} the pages: {' '.join(f'{it:.1f}' for it in values)}")
    finally:
        if agent:
            agent.close()
        containers.close()


if __name__ == "__main__":
    main()
