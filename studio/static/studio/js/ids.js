/**
 * Ids that the page makes: `sessionKey`, `clientMessageId`, `requestId`. 128 random bits, in the wire's alphabet; also on
 * plain http, where `crypto.randomUUID` is missing.
 */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
