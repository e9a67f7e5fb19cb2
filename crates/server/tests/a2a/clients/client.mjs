// A client that uses the official JavaScript SDK of A2A. A step throws an error if the server responds unexpectedly.
//
// Usage: node client.mjs SERVER BINDING PACKAGES
//   BINDING: JSONRPC or HTTP+JSON; PACKAGES: the folder that contains node_modules

import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [server, binding, packages] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(packages, '@a2a-js/sdk/dist', file)));
const { SendMessageRequest, TaskState } = await load('index.js');
const { ClientFactory, ClientFactoryOptions } = await load('client/index.js');

const posted = [];
let wake = () => {};
const hook = http.createServer((request, response) => {
  let body = '';
  request.on('data', (piece) => (body += piece));
  request.on('end', () => {
    posted.push([request.headers.authorization, JSON.parse(body)]);
    response.end();
    wake();
  });
});
await new Promise((done) => hook.listen(0, '127.0.0.1', done));
const address = `http://127.0.0.1:${hook.address().port}/webhook`;

const request = (messageId, taskId, push) =>
  SendMessageRequest.fromJSON({
    message: { messageId, role: 'ROLE_USER', parts: [{ text: 'Hello' }], taskId },
    configuration: push ? { taskPushNotificationConfig: push } : {},
  });
const all = async (stream) => {
  const updates = [];
  for await (const update of stream) updates.push(update);
  return updates;
};
// The kind and the content of an update, which the SDK nests in different ways.
const kind = (update) => update.payload?.$case ?? Object.keys(update)[0];
const held = (update) => update.payload?.value ?? Object.values(update)[0];

const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  preferredTransports: [binding],
});
const client = await new ClientFactory(options).createFromUrl(server);

const task = await client.sendMessage(request('tck-complete-task-js'));
assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
const found = await client.getTask({ tenant: '', id: task.id });
assert.equal(found.id, task.id);

const told = await all(client.sendMessageStream(request('tck-stream-artifact-chunked-js')));
assert.deepEqual(told.map(kind), [
  'task', 'statusUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate',
]);
assert.equal(held(told.at(-1)).status.state, TaskState.TASK_STATE_COMPLETED);

const listed = await client.listTasks({
  tenant: '', contextId: task.contextId, pageSize: 5, pageToken: '', status: 0,
});
assert.deepEqual(listed.tasks.map((one) => one.id), [task.id]);

const waits = await client.sendMessage(request('tck-input-required-js'));
assert.equal(waits.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
const stream = client.resubscribeTask({ tenant: '', id: waits.id });
const first = await stream.next();
assert.equal(kind(first.value), 'task');
await client.sendMessage(request('tck-complete-task-js', waits.id));
const rest = await all(stream);
assert.equal(held(rest.at(-1)).status.state, TaskState.TASK_STATE_COMPLETED);

const parked = await client.sendMessage(request('tck-input-required-js'));
const over = await client.cancelTask({ tenant: '', id: parked.id });
assert.equal(over.status.state, TaskState.TASK_STATE_CANCELED);
await assert.rejects(client.cancelTask({ tenant: '', id: parked.id }));

const push = {
  id: 'inline', url: address, authentication: { scheme: 'Bearer', credentials: 'js-token' },
};
await client.sendMessage(request('tck-complete-task-js', undefined, push));
const isOver = () =>
  posted.some(([, body]) => body.statusUpdate.status.state === 'TASK_STATE_COMPLETED');
while (!isOver()) await new Promise((done) => (wake = done));
assert(posted.every(([authorization]) => authorization === 'Bearer js-token'));
hook.close();
console.log(`javascript ${binding}: send, stream, get, list, subscribe, cancel, push`);
