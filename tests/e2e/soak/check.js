// A Node.js program that checks itself while it works: timers, child
// processes, worker threads, requests to its own server, files, buffers.
// SPDX-License-Identifier: MIT
// The protocol is that of check.py.
'use strict';
const { execFile, spawn } = require('child_process');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const readline = require('readline');
const zlib = require('zlib');

if (!isMainThread) {
  parentPort.on('message', (n) => {
    let sum = 0;
    const kept = [];
    for (let i = 0; i < n; i++) {
      kept.push({ i, text: 'entry ' + i });
      sum += kept[i].text.length;
    }
    parentPort.postMessage({ n, sum });
  });
  return;
}

let working = false, busy = 0, done = 0, wrong = 0, detail = '-';

function checked(right, what) {
  done++;
  if (!right) {
    wrong++;
    detail = what;
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const server = http.createServer((request, response) => {
  let size = 0;
  request.on('data', (chunk) => { size += chunk.length; });
  request.on('end', () => response.end(request.url + ' ' + size));
});
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });

function ask(keep) {
  return new Promise((resolve, reject) => {
    const path = '/n' + Math.floor(Math.random() * 1e6);
    const body = 'x'.repeat(1000);
    const request = http.request({ port: server.address().port,
      host: '127.0.0.1', path, method: 'POST',
      agent: keep ? agent : false }, (response) => {
      let text = '';
      response.on('data', (chunk) => { text += chunk; });
      response.on('end', () => {
        checked(response.statusCode === 200 && text === path + ' 1000',
          'http: ' + text);
        resolve();
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

function echo() {
  return new Promise((resolve) => {
    const word = 'word-' + Math.floor(Math.random() * 1e6);
    execFile('/bin/echo', [word], (error, out) => {
      checked(!error && out === word + '\n', 'echo: ' + error + out);
      resolve();
    });
  });
}

function cat() {
  return new Promise((resolve) => {
    const sent = Buffer.alloc(200000, 'abc');
    const parts = [];
    const child = spawn('/bin/cat');
    child.stdout.on('data', (chunk) => parts.push(chunk));
    child.on('close', (code) => {
      checked(code === 0 && Buffer.concat(parts).equals(sent), 'cat');
      resolve();
    });
    child.stdin.end(sent);
  });
}

function squeeze() {
  return new Promise((resolve) => {
    const text = Buffer.alloc(100000, 'abcdefg');
    zlib.deflate(text, (error, small) => {
      zlib.inflate(small, (error2, back) => {
        checked(!error && !error2 && back.equals(text), 'zlib');
        resolve();
      });
    });
  });
}

function key() {
  return new Promise((resolve) => {
    crypto.pbkdf2('secret', 'salt', 1000, 20, 'sha1', (error, derived) => {
      checked(!error && derived.toString('hex') ===
        'fa7bab9eff3a06a5271ccfb9b6d8728d0c7a334d', 'pbkdf2');
      resolve();
    });
  });
}

async function timers() {
  const early = await Promise.all([20, 5, 10].map(async (ms) => {
    const start = process.hrtime.bigint();
    await sleep(ms);
    // (A timer counts in whole milliseconds.)
    return process.hrtime.bigint() - start < BigInt(ms - 1) * 1000000n;
  }));
  checked(!early.includes(true), 'timers: ' + early);
}

async function churn() {
  const map = new Map();
  for (let i = 0; i < 20000; i++)
    map.set('key ' + i, { i, tags: [i, i + 1] });
  let sum = 0;
  for (const value of map.values())
    sum += value.tags[1] - value.i;
  checked(sum === 20000, 'churn');
  await sleep(1);
}

async function files() {
  const text = 'line\n'.repeat(1000);
  await fs.promises.writeFile('file.txt', text);
  checked(await fs.promises.readFile('file.txt', 'utf8') === text, 'file');
}

const workers = [];
const sums = new Map();
for (let i = 0; i < 2; i++) {
  const worker = new Worker(__filename);
  worker.on('message', ({ n, sum }) => {
    if (!sums.has(n))
      sums.set(n, sum);
    checked(sums.get(n) === sum, 'worker');
    worker.answered();
  });
  workers.push(worker);
}

function compute(worker) {
  return new Promise((resolve) => {
    worker.answered = resolve;
    worker.postMessage(1000 + Math.floor(Math.random() * 5) * 1000);
  });
}

async function loop(step) {
  busy++;
  while (working) {
    try {
      await step();
    } catch (error) {
      checked(false, String(error).replace(/\s/g, '_'));
    }
    await sleep(5); // whoever takes the snapshots works, too
  }
  busy--;
}

server.listen(0, '127.0.0.1', () => {
  server.keepAliveTimeout = 600000;
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', async (line) => {
    if (line === 'work') {
      working = true;
      for (const step of [() => ask(true), () => ask(true), () => ask(false),
        echo, cat, squeeze, key, timers, churn, files,
        ...workers.map((worker) => () => compute(worker))])
        loop(step);
    } else if (line === 'rest') {
      working = false;
      while (busy)
        await sleep(5);
      agent.destroy();
      await sleep(50);
      if (global.gc)
        global.gc();
      console.log('resting ' + done + ' ' + wrong + ' ' + detail);
    }
  });
  lines.on('close', () => process.exit(wrong ? 1 : 0));
});
