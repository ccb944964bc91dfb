// Runs the trace processor of Perfetto's page (ui.perfetto.dev). Reads requests from standard input
// and writes replies to standard output.
// Usage: node trace_processor.js FOLDER, which contains engine_bundle.js and the wasm files of the
// page.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const [, , folder] = process.argv;
const read = (name) => fs.readFileSync(path.join(folder, path.basename(name)));

/** The bundle uses this class only to load its wasm program. */
class XMLHttpRequest {
    open(_method, name) {
        this.name = name;
    }

    send() {
        this.response = new Uint8Array(read(this.name)).buffer;
    }
}

// The bundle expects the global scope of a worker.
const worker = vm.createContext({
    WorkerGlobalScope: true,
    XMLHttpRequest,
    TextDecoder,
    URL,
    crypto: globalThis.crypto,
    performance,
    setTimeout,
    console: { log() {}, warn() {}, error: console.error },
    location: { href: "file:///engine_bundle.js" },
});
worker.self = worker;
const port = { postMessage: (reply) => fs.writeSync(1, reply) };
try {
    vm.runInContext(read("engine_bundle.js").toString(), worker);
    worker.onmessage({ data: port });
} catch (error) {
    // A stack trace would quote the bundle, which is a single line.
    console.error(String(error));
    process.exit(1);
}
const bytes = vm.runInContext("(chunk) => new Uint8Array(chunk)", worker);
process.stdin.on("data", (chunk) => port.onmessage({ data: bytes(chunk) }));
