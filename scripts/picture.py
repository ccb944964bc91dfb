#!/usr/bin/env python3
"""Makes the pictures of the page in docs/ from a recorded scene. Needs root, Chromium and chromedriver.

Usage: scripts/picture.py [--noctule FILE] [--tape DIR]

Plays a scene of a minute and records it: a batch job slows an API server down, then the server's own CPU limit does.
Then serves the recording and saves what the page shows first, as docs/page.png (light) and docs/page-dark.png. With
`--tape`, takes the pictures of an existing recording. Other loads on the machine are in the pictures too.
"""

import argparse
import base64
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from pages import Browser, hierarchies

DOCS = os.path.join(os.path.dirname(__file__), "../docs")
CONFIG = '[host]\nname = "node-1"\n\n[verdicts]\nwindow_seconds = 5.0\n'
SLICE = "picture.slice"
# Opens the worst episode of the group that the pictures are about.
OPEN = """
    document.querySelector(".lane:has([title='shop.service']) .track")?.click();
    return document.querySelector(".pane h2")?.title === "shop.service";
"""
# Shows all of the recording.
ALL = "[...document.querySelectorAll('nav button')].find((it) => it.textContent === 'all').click()"
# Whether the pane and all charts are drawn.
DRAWN = """
    const charts = [...document.querySelectorAll(".chart:not(.grid)")];
    return !!document.querySelector(".pane .time-bar") && charts.every((it) => it.querySelector(".uplot"));
"""
# Width and height in pixels.
SIZE = (1400, 1180)


class Unit:
    """A cgroup that is named like a systemd unit, with its processes."""

    def __init__(self, name):
        self.folders = [f"{root}/{SLICE}/{name}" for root in hierarchies()]
        for folder in self.folders:
            os.makedirs(folder)
            enable_cpu(os.path.dirname(folder))
        self.children = []

    def spawn(self, command, count, busy, pause=0.0):
        """Starts processes that use a CPU for `busy` seconds and sleep for `pause` seconds, again and again."""
        for _ in range(count):
            child = os.fork()
            if child:
                self.children.append(child)
                continue
            for folder in self.folders:
                write(f"{folder}/cgroup.procs", os.getpid())
            write("/proc/self/comm", command)
            parent = os.getppid()
            while os.getppid() == parent:
                end = time.monotonic() + busy
                while time.monotonic() < end:
                    pass
                time.sleep(pause)
            os._exit(0)

    def limit(self, cpus):
        quota = int(cpus * 100_000)
        control(self.folders[0], ("cpu.max", f"{quota} 100000"), ("cpu.cfs_quota_us", quota))

    def stop(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.children = []

    def close(self):
        self.stop()
        for folder in self.folders:
            remove(folder)


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def control(folder, v2, v1):
    """Writes a value to a file of cgroup v2, or of v1."""
    name, value = v2 if os.path.exists(f"{folder}/{v2[0]}") else v1
    write(f"{folder}/{name}", value)


def enable_cpu(folder):
    """Enables the controller in a folder of cgroup v2 and in its parent."""
    for place in (os.path.dirname(folder), folder):
        if os.path.exists(f"{place}/cgroup.subtree_control"):
            write(f"{place}/cgroup.subtree_control", "+cpu")


def remove(folder):
    """Removes a cgroup, which takes a moment after its last process has ended."""
    for _ in range(100):
        try:
            os.rmdir(folder)
            return
        except OSError:
            time.sleep(0.02)


def record(noctule, config, tape):
    units = {name: Unit(f"{name}.service") for name in ("shop", "web", "db", "reindex")}
    # Other loads of the machine matter less.
    control(f"{hierarchies()[0]}/{SLICE}", ("cpu.weight", 1600), ("cpu.shares", 16384))
    try:
        units["shop"].spawn("shop-api", 2, busy=0.005, pause=0.005)
        units["web"].spawn("nginx", 2, busy=0.002, pause=0.02)
        units["db"].spawn("postgres", 2, busy=0.003, pause=0.03)
        command = [noctule, "record", "--config", config, "-o", tape, "--for", "60s"]
        with subprocess.Popen(command) as recorder:
            time.sleep(15)
            units["reindex"].spawn("reindex", 2 * os.cpu_count() + 1, busy=60)
            time.sleep(20)
            units["reindex"].stop()
            time.sleep(5)
            units["shop"].limit(0.4)
            assert recorder.wait() == 0, "the recorder failed"
    finally:
        for unit in units.values():
            unit.close()
        for root in hierarchies():
            remove(f"{root}/{SLICE}")


def wait_until(what, is_done):
    end = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.1)


def is_ready(address):
    try:
        with urllib.request.urlopen(f"http://{address}/readyz") as answer:
            return answer.status == 200
    except OSError:
        return False


def take(address):
    browser = Browser()
    try:
        width, height = SIZE
        command = lambda name, **parameters: browser.ask("/goog/cdp/execute", {"cmd": name, "params": parameters})
        command("Emulation.setScrollbarsHidden", hidden=True)
        command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        for theme, name in (("light", "page.png"), ("dark", "page-dark.png")):
            command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            browser.ask("/url", {"url": "about:blank"})
            browser.ask("/url", {"url": f"http://{address}/"})
            wait_until("the group is open", lambda: browser.run(OPEN))
            browser.run(ALL)
            wait_until("the page is drawn", lambda: browser.run(DRAWN))
            time.sleep(1)
            picture = command("Page.captureScreenshot", format="png")
            with open(f"{DOCS}/{name}", "wb") as file:
                file.write(base64.b64decode(picture["data"]))
    finally:
        browser.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noctule", default="target/release/noctule")
    parser.add_argument("--tape")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, tape = f"{folder}/config.toml", args.tape or f"{folder}/tape"
        write(config, CONFIG)
        if not args.tape:
            record(args.noctule, config, tape)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        command = [args.noctule, "run", "--from", tape, "--config", config, "--listen", address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as agent:
            try:
                wait_until("the recording is served", lambda: is_ready(address))
                take(address)
            finally:
                agent.terminate()


if __name__ == "__main__":
    main()
