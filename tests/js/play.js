/**
 * Plays frames to the page's own reducer. Reads `{"snapshot", "events"}` from its input, the reply of a subscribe and what
 * came after it; writes what the page then knows, in the form of such a reply.
 */
import { readFileSync } from "node:fs";

import { initialState, openConversation, openSession, reduce } from "#studio/reduce";

const { snapshot, events } = JSON.parse(readFileSync(0, "utf8"));
const sessionKey = snapshot.session.key;
const request = { type: "studio_chat_subscribe", sessionKey };
const frames = [{ type: "page_subscribing", sessionKey }, { ...snapshot, request }, ...events];
const state = frames.reduce(reduce, initialState({ sessionKey }));
const { stale, messages, queue, active } = openConversation(state);
process.stdout.write(JSON.stringify({ stale, session: openSession(state), messages, queue, active, holds: state.holds }));
