// foldback for opencode: `/compact` and automatic compaction are answered by the `foldback` program, without
// asking a model. Whenever foldback has no answer, opencode's own prompt goes to your model, as without this file.
//
// opencode asks the model of its agent `compaction` for a summary and writes the record itself. This file is
// the plugin that names that model, and the provider behind it: the "model" runs the program. So the record is
// opencode's own, and exports, imports and the next request agree about it.
//
// `foldback install opencode` puts this file into ~/.config/opencode/plugin/ (or .opencode/plugin/ of a
// project). Deleting it takes foldback out again; "foldback" in `disabled_providers` switches it off.

import { spawn } from "node:child_process";

/** The program: its name, looked up in PATH, or its path. */
const PROGRAM = process.env.FOLDBACK_PROGRAM || "__FOLDBACK_PROGRAM__";

/** The version of the contract with `foldback hook`. */
const VERSION = 1;
/** How long an answer may take: well below a second, but a model of the person's choice may write the summary,
 * for which foldback waits up to 75 s. After this, opencode compacts by itself. */
const ANSWER_MS_MAX = 90_000;
/** More than this is no answer of foldback's. */
const ANSWER_CHARACTERS_MAX = 64 * 1024 * 1024;
/** An output with fewer characters is not worth asking about. */
const SHORTENED_CHARACTERS_MIN = 10_000;
/** What of a line is shown to the person. */
const LINE_CHARACTERS_MAX = 300;

const PROVIDER = "foldback";
const MODEL = "compaction";
const AGENT_HEADER = "x-foldback-agent";

/** What each project that opencode has open needs, by its directory. */
const projects = new Map();

export default { id: "foldback", server: plugin };

async function plugin({ client, directory }) {
  const project = { client, model: undefined, children: new Set() };
  const missing = await run(["--version"], "").then(() => undefined, reason);
  if (missing !== undefined) {
    const event = ({ event }) => event.type === "session.compacted" && tellFallback(project, missing);
    return { event };
  }
  let config;
  return {
    async config(loaded) {
      config = loaded;
      takeOver(project, directory, config);
    },
    // opencode calls this when it has read `config.provider`. Left there, our model would become the one to
    // chat with where the person has configured no other provider.
    provider: {
      id: "opencode",
      async models(provider) {
        delete config?.provider?.[PROVIDER];
        return provider.models;
      },
    },
    // The provider is not told otherwise which agent asks it.
    async "chat.headers"({ agent, model }, { headers }) {
      if (model.providerID === PROVIDER) headers[AGENT_HEADER] = agent;
    },
    async "tool.execute.after"({ tool, args }, result) {
      const isOn = projects.get(directory) === project && tool !== "recall";
      if (!isOn || !(result.output?.length >= SHORTENED_CHARACTERS_MIN)) return;
      const asked = { version: VERSION, tool, input: args, output: result.output };
      const answer = await ask("shorten", asked).catch(() => undefined);
      if (answer?.result === "shortened") result.output = answer.output;
    },
    tool: { recall: recallTool(project) },
    async "tool.definition"({ toolID }, definition) {
      if (toolID === "recall") definition.jsonSchema = { ...definition.jsonSchema, required: [] };
    },
    async dispose() {
      if (projects.get(directory) === project) projects.delete(directory);
    },
  };
}

/** Makes foldback the model of the agent `compaction`, in memory: no file of the person is changed. */
function takeOver(project, directory, config) {
  if (config.disabled_providers?.includes(PROVIDER)) return;
  // Installed for the user and for the project, this runs twice: the second one leaves it to the first.
  if (config.provider?.[PROVIDER]) return;
  projects.set(directory, project);
  config.provider ??= {};
  config.provider[PROVIDER] = {
    name: "foldback",
    npm: import.meta.url,
    options: { directory },
    models: { [MODEL]: { name: "foldback: for compaction only", limit: { context: 1_000_000, output: 32_000 } } },
  };
  config.enabled_providers?.push(PROVIDER);
  config.agent ??= {};
  config.agent.compaction ??= {};
  project.model = modelNamed(config.agent.compaction.model);
  config.agent.compaction.model = `${PROVIDER}/${MODEL}`;
  // foldback says where the tail begins that stays as it is, so opencode must not choose another.
  config.compaction = { ...config.compaction, tail_turns: 0 };
}

function modelNamed(name) {
  if (typeof name !== "string") return undefined;
  const [providerID, ...rest] = name.split("/");
  return { providerID, modelID: rest.join("/") };
}

/** The provider. opencode knows a provider's maker by the beginning of its name, `create`. */
export function createFoldback({ directory }) {
  const languageModel = (modelId) => ({
    specificationVersion: "v3",
    provider: PROVIDER,
    modelId,
    supportedUrls: {},
    async doGenerate() {
      throw new Error("foldback only compacts: choose another model");
    },
    async doStream({ prompt, headers, abortSignal }) {
      const said = new Headers(headers);
      const [project, sessionID] = [projects.get(directory), said.get("x-session-id")];
      const isOurs = project && said.get(AGENT_HEADER) === "compaction" && !project.children.has(sessionID);
      if (!isOurs) throw new Error("foldback only compacts: choose another model");
      return { stream: streamOf(await summary(project, sessionID, prompt, abortSignal)) };
    },
  });
  return { languageModel };
}

function streamOf(text) {
  const id = "summary";
  const usage = {
    inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 0, text: 0, reasoning: 0 },
  };
  const parts = [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id },
    { type: "text-delta", id, delta: text },
    { type: "text-end", id },
    { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
  ];
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

/** The text that opencode stores as the summary: foldback's, or else that of the person's model. */
async function summary(project, sessionID, prompt, signal) {
  const messages = await history(project, sessionID);
  const marker = messages.findLast((message) => message.info.role === "user");
  try {
    // opencode records no compaction for what is said after one that was cancelled: it writes an answer.
    if (isSaid(marker)) throw new Error("an earlier compaction was cancelled");
    const answer = await compacted(project, sessionID, messages, marker, signal);
    await tell(project, answer.line, "info");
    return answer.summary;
  } catch (error) {
    if (signal?.aborted) throw error;
    await tellFallback(project, reason(error));
    return await askModel(project, sessionID, marker, prompt, signal);
  }
}

/** The whole session, as `opencode export` has it. */
function history({ client }, sessionID) {
  return answered(client.session.messages({ path: { id: sessionID } }));
}

/** Whether a person, or opencode for them, said this: it does not just ask for a compaction. */
function isSaid(message) {
  return message.info.role === "user" && !message.parts.some(isMark);
}

function isMark(part) {
  return part.type === "compaction";
}

/** Asks foldback for a compaction, and has opencode keep the tail and foldback's record of it. */
async function compacted(project, sessionID, messages, marker, signal) {
  const mark = marker.parts.find(isMark);
  const repeated = mark.overflow ? repeatedFrom(messages, marker) : undefined;
  const answer = await ask("compact", {
    ...conversation(sessionID, messages.slice(0, repeated)),
    // opencode puts the repeated message behind the summary. A tail would bring it along a second time.
    takes: repeated === undefined ? "tail" : "summary",
    reason: mark.overflow ? "overflow" : mark.auto ? "auto" : "manual",
    model: marker.info.model.modelID,
    window: await windowOf(project, marker.info.model),
    used: usedBy(messages),
  }, signal);
  if (answer.result !== "compacted") throw new Error(String(answer.why ?? "nothing to fold"));
  if (typeof answer.summary !== "string" || answer.summary === "") throw new Error("it answered without a summary");
  // foldback's record would not know that what is repeated hides what it repeats.
  if (repeated === undefined) await keep(project, messages, mark, answer);
  return answer;
}

function conversation(sessionID, messages) {
  return { version: VERSION, agent: "opencode", format: "opencode", messages: { info: { id: sessionID }, messages } };
}

/** Where a request did not fit, opencode repeats the newest user message, if there is another before it. */
function repeatedFrom(messages, marker) {
  const before = messages.slice(0, messages.indexOf(marker));
  const index = before.findLastIndex(isSaid);
  return before.slice(0, Math.max(index, 0)).some(isSaid) ? index : undefined;
}

async function windowOf({ client }, { providerID, modelID }) {
  const { providers } = await answered(client.config.providers());
  return providers.find((provider) => provider.id === providerID)?.models[modelID]?.limit?.context || null;
}

/** What the newest request cost, unless a compaction came since. */
function usedBy(messages) {
  const { info } = messages.findLast(({ info }) => info.summary === true || info.tokens?.output > 0) ?? {};
  if (!info || info.summary === true) return null;
  const { input, output, cache } = info.tokens;
  return input + output + cache.read + cache.write;
}

/** Says in opencode's record where the tail begins, and puts foldback's own record beside it. */
async function keep({ client }, messages, mark, { first_kept: firstKept, details }) {
  // From anywhere else on, opencode would show what is folded or repeat what is shown.
  if (firstKept && !isShown(messages, firstKept)) throw new Error("it keeps a message that is not shown");
  const { sessionID, messageID } = mark;
  const put = (part) =>
    // The client that plugins get has no method of its own for this call.
    answered(client._client.patch({
      url: "/session/{sessionID}/message/{messageID}/part/{id}",
      path: { sessionID, messageID, id: part.id },
      headers: { "Content-Type": "application/json" },
      body: part,
    }));
  if (details?.foldback) {
    const id = `${mark.id.slice(0, -8)}foldback`;
    const silent = { type: "text", text: "", synthetic: true, ignored: true };
    await put({ id, sessionID, messageID, ...silent, metadata: { foldback: details.foldback } });
  }
  await put({ ...mark, tail_start_id: firstKept });
}

/** Whether opencode shows a message now: in the tail of the newest compaction, or behind it. */
function isShown(messages, id) {
  const summary = messages.findLast(({ info }) => info.summary === true && info.finish && !info.error);
  const marker = messages.find(({ info, parts }) => info.id === summary?.info.parentID && parts.some(isMark));
  const start = marker && (marker.parts.find(isMark).tail_start_id ?? marker.info.id);
  const index = messages.findIndex(({ info }) => info.id === id);
  return index !== -1 && index >= messages.findIndex(({ info }) => info.id === start);
}

/** opencode's own compaction: its prompt, for the person's model, in a child session that is deleted again. */
async function askModel(project, sessionID, marker, prompt, signal) {
  const { client } = project;
  const { id } = await answered(client.session.create({ body: { parentID: sessionID, title: "Compaction" } }));
  const path = { id };
  const stop = () => void client.session.abort({ path });
  project.children.add(id);
  signal?.addEventListener("abort", stop);
  try {
    const model = project.model ?? marker.info.model;
    const text = textOf(prompt.findLast((message) => message.role === "user").content);
    const body = { agent: "compaction", model, parts: [{ type: "text", text }] };
    const { info, parts } = await answered(client.session.prompt({ path, body }));
    if (info.error) throw new Error(info.error.data?.message ?? info.error.name);
    return textOf(parts);
  } finally {
    signal?.removeEventListener("abort", stop);
    project.children.delete(id);
    await client.session.delete({ path }).catch(() => {});
  }
}

function textOf(parts) {
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}

/** What the model calls to read folded content. */
function recallTool(project) {
  return {
    description:
      "Read what a compaction folded away: give the handle that stands in a summary or a placeholder, such as " +
      "@7k3m9q2xvd. With a query, only the passages with these words; a query alone looks everywhere.",
    args: {
      handle: { type: "string", description: "The handle, such as @7k3m9q2xvd" },
      query: { type: "string", description: "Words to look for" },
    },
    async execute({ handle, query }, { sessionID, abort }) {
      const messages = await history(project, sessionID);
      const asked = { handle: handle || undefined, query: query || undefined };
      const answer = await ask("recall", { ...conversation(sessionID, messages), ...asked }, abort);
      if (answer.result !== "answered") throw new Error(String(answer.why ?? "nothing found"));
      return { title: handle || query || "", output: answer.text };
    },
  };
}

/** Asks `foldback hook COMMAND`: one JSON object in, one out. */
async function ask(command, request, signal) {
  const text = await run(["hook", command], JSON.stringify(request), signal);
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error("its answer is not JSON");
  }
  if (answer?.version !== VERSION) throw new Error("it speaks another version; run `foldback install opencode` again");
  return answer;
}

/** What the program prints. Throws where it cannot be started, fails without a word, takes too long or says too much. */
function run(args, input, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn(PROGRAM, args, { stdio: ["pipe", "pipe", "ignore"], windowsHide: true });
    const said = [];
    let characterCount = 0;
    const stop = (why) => {
      child.kill("SIGKILL");
      end(() => reject(new Error(why)));
    };
    const cancel = () => stop("cancelled");
    const timer = setTimeout(() => stop(`no answer within ${ANSWER_MS_MAX / 1000} s`), ANSWER_MS_MAX);
    const end = (then) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
      then();
    };
    child.on("error", (error) => {
      end(() => reject(new Error(error.code === "ENOENT" ? `${PROGRAM} is not installed` : error.message)));
    });
    child.stdout.setEncoding("utf8").on("data", (text) => {
      characterCount += text.length;
      if (characterCount > ANSWER_CHARACTERS_MAX) stop("its answer is too long");
      else said.push(text);
    });
    child.on("close", (code) => {
      // An answer that says what went wrong comes with a code, too.
      const isAnswer = code === 0 || said.length > 0;
      end(() => (isAnswer ? resolve(said.join("")) : reject(new Error(`it ended with ${code}`))));
    });
    // A program that ends before it has read everything is reported by its end, not by the broken pipe.
    child.stdin.on("error", () => {});
    if (signal?.aborted) return cancel();
    signal?.addEventListener("abort", cancel);
    child.stdin.end(input);
  });
}

/** What opencode's own interface answers. */
async function answered(call) {
  const { data, error } = await call;
  if (data === undefined) throw new Error(`opencode did not answer: ${JSON.stringify(error ?? null)}`);
  return data;
}

function reason(error) {
  return error instanceof Error ? error.message : String(error);
}

function tellFallback(project, why) {
  return tell(project, `foldback: ${why}; opencode compacts by itself`, "warning");
}

/** One line for the person, on the screen and in opencode's log. */
async function tell({ client }, line, variant) {
  // What foldback quotes may hold anything, and a terminal must not obey it.
  const plain = String(line ?? "").replace(/[\p{Cc}\p{Cf}]+/gu, " ");
  const message = plain.length > LINE_CHARACTERS_MAX ? `${plain.slice(0, LINE_CHARACTERS_MAX)}…` : plain;
  const level = variant === "warning" ? "warn" : "info";
  await Promise.allSettled([
    client.tui.showToast({ body: { message, variant } }),
    client.app.log({ body: { service: "foldback", level, message } }),
  ]);
}
