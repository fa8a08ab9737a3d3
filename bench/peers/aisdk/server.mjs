// The smallest chat server on the AI SDK: one stream of text for each POST, stopped when its reader goes. It keeps nothing.
import http from 'node:http';
import { once } from 'node:events';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';

const provider = createOpenAICompatible({
  name: 'provider',
  baseURL: process.env.PROVIDER_URL,
  apiKey: 'none',
});

const server = http.createServer(async (request, response) => {
  if (request.method !== 'POST') {
    response.end('ready');
    return;
  }
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const { messages } = JSON.parse(Buffer.concat(pieces));
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const answer = streamText({
    model: provider('fake-model'),
    messages,
    abortSignal: gone.signal,
    maxRetries: 0,
    onError: () => {}, // an abort is no news here
  });
  answer.pipeUIMessageStreamToResponse(response);
});

server.listen(Number(process.env.PORT), '127.0.0.1');
await once(server, 'listening');
