// foldback for pi: `/compact` and automatic compaction are answered by the `foldback` program, without
// asking a model. Whenever foldback has no answer, pi compacts as it would without this file.
//
// `foldback install pi` puts this file into ~/.pi/agent/extensions/ (or .pi/extensions/ of a project).
// Deleting it takes foldback out again.

import { spawn } from "node:child_process";
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";

/** The program: its name, looked up in PATH, or its path. */
const PROGRAM = process.env.FOLDBACK_PROGRAM || "__FOLDBACK_PROGRAM__";

/** How long a compaction may take: well below a second, but a model of the person's choice may write the
 * summary, for which foldback waits up to 75 s. After this, pi compacts by itself. */
const COMPACT_MS_MAX = 90_000;
/** How long a recall may take. */
const RECALL_MS_MAX = 20_000;
/** How long the output of a tool waits to be shortened. */
const SHORTEN_MS_MAX = 2_000;
/** An output with fewer characters is not worth asking about. */
const SHORTENED_CHARACTERS_MIN = 10_000;
/** More than this is no answer of foldback's. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024;
/** What of a reason is shown to the person. */
const REASON_CHARACTERS_MAX = 200;

/** Marks an event for which foldback was asked. */
const ASKED = Symbol.for("foldback.asked");

/** What `foldback hook` prints: `docs/hook.md` of foldback. */
interface Printed {
  version: 1;
  result: "compacted" | "unchanged" | "answered" | "shortened" | "failed";
  why?: string;
  summary?: string;
  first_kept?: string;
  details?: unknown;
  tokens_before?: number;
  line?: string;
  text?: string;
  output?: string;
}

/** A compaction that pi can take. */
interface Answer {
  summary: string;
  firstKept: string | null;
  tokensBefore: number;
  /** foldback's record of the compaction, which pi stores beside it. */
  details: unknown;
  line?: string;
}

export default function foldback(pi: ExtensionAPI) {
  let answer: Answer | undefined;
  let failure: string | undefined;

  pi.on("session_before_compact", async (event: any, ctx) => {
    answer = failure = undefined;
    // Installed for the user and for the project, this runs twice: the second one leaves it to the first.
    if (event[ASKED]) return undefined;
    event[ASKED] = true;
    try {
      answer = await compacted(event, ctx);
      return {
        compaction: {
          summary: answer.summary,
          // pi takes null for "keep nothing", whatever its types say.
          firstKeptEntryId: answer.firstKept as string,
          tokensBefore: answer.tokensBefore,
          details: answer.details,
        },
      };
    } catch (error) {
      if (event.signal.aborted) return undefined;
      failure = `foldback: ${reason(error)}; pi compacts by itself`;
      tell(ctx, failure, "warning");
      return undefined;
    }
  });

  pi.on("session_compact", (event, ctx) => {
    // Another extension may have had the last word.
    if (answer?.line && event.compactionEntry.summary === answer.summary) tellBelow(ctx, answer.line, "info");
    // pi's window has lost the warning by now; elsewhere it was read.
    if (failure && ctx.mode === "tui") tellBelow(ctx, failure, "warning");
    answer = failure = undefined;
  });

  pi.on("tool_result", async (event: any, ctx) => {
    const [block, ...others] = event.content ?? [];
    const isLong = block?.type === "text" && block.text.length >= SHORTENED_CHARACTERS_MIN;
    if (!isLong || others.length > 0 || event.toolName === RECALL.name) return undefined;
    const asked = { version: 1, tool: event.toolName, input: event.input, output: block.text };
    // Where foldback has no answer the output stays long.
    const printed = await hook("shorten", asked, SHORTEN_MS_MAX, ctx.signal).catch(() => undefined);
    if (printed?.result !== "shortened" || typeof printed.output !== "string") return undefined;
    return { content: [{ ...block, text: printed.output }] };
  });

  // Not before the session starts: a name that another extension has taken would keep pi from starting.
  pi.on("session_start", () => {
    const isFree = (named: { name: string }[], name: string) => !named.some((one) => one.name === name);
    if (isFree(pi.getAllTools(), RECALL.name)) pi.registerTool(RECALL as any);
    if (isFree(pi.getCommands(), COMMAND.name)) pi.registerCommand(COMMAND.name, COMMAND);
  });
}

/** What the model calls to read folded content. */
const RECALL = {
  name: "recall",
  label: "recall",
  description:
    "Read what a compaction folded away: give the handle that stands in a summary or a placeholder, such as " +
    "@7k3m9q2xvd, or words to look for in all that was folded, or both.",
  parameters: {
    type: "object",
    properties: {
      handle: { type: "string", description: "The handle, such as @7k3m9q2xvd" },
      query: { type: "string", description: "Words to look for" },
      offset: { type: "integer", minimum: 0, description: "Where to go on in a long answer" },
    },
  },
  async execute(_id: string, asked: Recall, signal: AbortSignal | undefined, _update: unknown, ctx: ExtensionContext) {
    const { handle, query, offset } = asked;
    const printed = await hook("recall", { ...which(ctx), handle, query, offset }, RECALL_MS_MAX, signal);
    if (printed.result !== "answered") throw new Error(plain(String(printed.why)));
    return { content: [{ type: "text" as const, text: String(printed.text) }], details: {} };
  },
};

interface Recall {
  handle?: string;
  query?: string;
  offset?: number;
}

const COMMAND = {
  name: "foldback",
  description: "foldback's compactions of this session: log, undo, redo",
  handler: command,
};

/** `/foldback log`, `/foldback undo`, `/foldback redo`. pi reads the file again after a change. */
async function command(args: string, ctx: ExtensionCommandContext) {
  const what = args.trim() || "log";
  if (!["log", "undo", "redo"].includes(what)) return tell(ctx, "foldback: say log, undo or redo", "warning");
  await ctx.waitForIdle();
  const session = ctx.sessionManager;
  const file = session.getSessionFile();
  if (!file) return tell(ctx, "foldback: this session is in no file", "warning");
  if (session.getEntries().at(-1)?.id !== session.getLeafId())
    return tell(ctx, "foldback: go to the newest entry first (/tree)", "warning");
  try {
    const said = await run(what === "log" ? ["log", file] : [what, file, "--in-place"], "", COMPACT_MS_MAX, undefined);
    if (what === "log") return tell(ctx, said, "info");
    const told = { withSession: async (fresh: ExtensionContext) => tell(fresh, `foldback: ${what} done`, "info") };
    await ctx.switchSession(file, told);
  } catch (error) {
    tell(ctx, `foldback: ${reason(error)}`, "warning");
  }
}

/** The conversation that pi is having. */
function which(ctx: ExtensionContext) {
  const session = ctx.sessionManager;
  const file = session.getSessionFile();
  // A session that is in no file comes along whole.
  const lines = () => [session.getHeader(), ...session.getBranch()].map((entry) => JSON.stringify(entry)).join("\n");
  const content = file ? { session: file } : { messages: lines() };
  // The last entry of the file may belong to another branch.
  return { version: 1, agent: "pi", format: "pi", leaf: session.getLeafId() ?? undefined, ...content };
}

/** Asks foldback for a compaction, and checks the answer: pi takes any, and an id that it does not know empties the context. */
async function compacted(event: any, ctx: ExtensionContext): Promise<Answer> {
  const { preparation, branchEntries } = event;
  const request = {
    ...which(ctx),
    takes: "tail",
    reason: event.reason === "threshold" ? "auto" : event.reason,
    instructions: event.customInstructions,
    model: ctx.model?.id,
    window: ctx.model?.contextWindow,
    used: preparation.tokensBefore,
  };
  const printed = await hook("compact", request, COMPACT_MS_MAX, event.signal);
  const { result, why, summary, details, line } = printed;
  if (result !== "compacted") throw new Error(String(why ?? "nothing to fold"));
  if (typeof summary !== "string" || summary === "") throw new Error("it answered without a summary");
  const firstKept = printed.first_kept ?? null;
  const kept = branchEntries.find((entry: any) => entry.id === firstKept);
  if (firstKept !== null && !kept) throw new Error("it keeps an entry that this session does not have");
  if (kept?.message?.role === "toolResult") throw new Error("it keeps a tool result without its call");
  const tokensBefore = printed.tokens_before ?? preparation.tokensBefore;
  return { summary, firstKept, tokensBefore, details, line };
}

/** What `foldback hook` answers. */
async function hook(command: string, request: object, msMax: number, signal?: AbortSignal): Promise<Printed> {
  const text = await run(["hook", command], JSON.stringify(request), msMax, signal);
  let answer: any;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error("its answer is not JSON");
  }
  if (answer?.version !== 1) throw new Error("it speaks another version than this extension; run `foldback install pi` again");
  return answer;
}

/** What the program prints. Throws where it cannot be started, says nothing and fails, takes too long or says too much. */
function run(args: string[], input: string, msMax: number, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(PROGRAM, args, { stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    const out: Buffer[] = [];
    let byteCount = 0;
    let errors = "";
    const stop = (why: string) => {
      child.kill("SIGKILL");
      end(() => reject(new Error(why)));
    };
    const timer = setTimeout(() => stop(`no answer within ${msMax / 1000} s`), msMax);
    const aborted = () => stop("cancelled");
    const end = (then: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
      then();
    };
    if (signal?.aborted) return aborted();
    signal?.addEventListener("abort", aborted, { once: true });
    child.on("error", (error: NodeJS.ErrnoException) =>
      end(() => reject(new Error(error.code === "ENOENT" ? `${PROGRAM} is not installed` : error.message))),
    );
    child.stdout.on("data", (data: Buffer) => {
      byteCount += data.length;
      if (byteCount > ANSWER_BYTES_MAX) stop("its answer is too long");
      else out.push(data);
    });
    child.stderr.on("data", (data: Buffer) => {
      if (errors.length < REASON_CHARACTERS_MAX) errors += data;
    });
    child.on("close", (code, killedBy) =>
      end(() => {
        const failed = code !== 0 && byteCount === 0;
        if (failed) reject(new Error(errors.trim() || `it ended with ${code ?? killedBy}`));
        else resolve(Buffer.concat(out).toString("utf8"));
      }),
    );
    // A program that ends before it has read everything is reported by its end, not by the broken pipe.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

function reason(error: unknown): string {
  const text = plain(error instanceof Error ? error.message : String(error)).replace(/^error: /, "");
  return text.length > REASON_CHARACTERS_MAX ? `${text.slice(0, REASON_CHARACTERS_MAX)}…` : text;
}

/** Without characters that steer a terminal, and on one line. */
function plain(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, " ").trim();
}

/** Says something to the person: in pi's own window, or on stderr where pi only prints. */
function tell(ctx: ExtensionContext, text: string, kind: "info" | "warning") {
  if (ctx.hasUI) ctx.ui.notify(plainLines(text), kind);
  else console.error(plainLines(text));
}

/** Says something below a compaction. pi's window draws the conversation anew right after `session_compact`,
 * and whatever was said until then is gone. */
function tellBelow(ctx: ExtensionContext, text: string, kind: "info" | "warning") {
  if (ctx.mode !== "tui") return tell(ctx, text, kind);
  // Taken now: a context must not be asked for it after another session was opened.
  const { ui } = ctx;
  setTimeout(() => ui.notify(plainLines(text), kind), 0);
}

function plainLines(text: string): string {
  return text.split("\n").map(plain).filter(Boolean).join("\n");
}
