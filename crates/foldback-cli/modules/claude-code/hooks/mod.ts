// foldback in Claude Code: it answers compactions, and recalls what they folded.
//
// Claude Code (2.1.287 or later) loads this file as it is. At a compaction the module runs
// `foldback hook compact`, which reads the session's file, and gives Claude Code the messages that
// foldback answers with. If anything goes wrong, Claude Code compacts as it does without foldback,
// and one line says why.
//
// Claude Code allows `$` only as `$.noun.event(...)`, never as an argument. So the functions below the
// hooks work on plain data.

import type { Hook, Register } from 'claude-code'

/** The program. `foldback install` writes the path of the installed one here. */
const FOLDBACK = "__FOLDBACK_PROGRAM__"

/** What both programs understand. Another number in an answer means that they do not fit together. */
const CONTRACT_VERSION = 1

/** foldback needs less than a second; after this long Claude Code's own compaction is the better one. */
const COMPACT_MILLISECONDS_MAX = 10_000
const RECALL_MILLISECONDS_MAX = 10_000

/** Claude Code draws the transcript anew when a compaction ends. A line said earlier is lost. */
const LINE_DELAY_MILLISECONDS = 1_000

/** What of a recalled text goes to the model at once. */
const RECALL_CHARACTERS_MAX = 40_000

/** Of an error's text, what fits on one line. */
const WHY_CHARACTERS_MAX = 200

/** How foldback's summaries begin. Only the screen depends on it. */
const SUMMARY_START = '[Summary of '

const RECALL = 'mcp__foldback__recall'

const RECALL_SPEC = {
  name: 'recall',
  description:
    'Reads what a compaction folded away. Summaries and shortened results name what they stand for by ' +
    'a handle such as @7k3m9q2xvd. With a query, only the passages with these words.',
  // The schema is part of every request, so that the model need not search for the tool first.
  isDeferred: false,
  inputSchema: {
    type: 'object',
    properties: {
      handle: { type: 'string', description: 'The handle, such as @7k3m9q2xvd' },
      query: { type: 'string', description: 'Words to look for in it' },
    },
    required: ['handle'],
  },
} as const

export const register: Register = (on) => {
  on('session.start', offerRecall)
  on('session.compact', compact)
  // To Claude Code a summary is a user message. Its first line is shown; ctrl+o shows all.
  on('ui.render', { component: 'UserMessage' }, async ($, e, next) => {
    const { text, isExpanded } = e.props
    if (isExpanded || !text.startsWith(SUMMARY_START)) return next(e)
    return next({ ...e, props: { ...e.props, text: firstLine(text) } })
  })
  on('tool.check', { tool: RECALL }, allowRecall)
  on('tool.run', { tool: RECALL }, async ($, e) => {
    try {
      const { transcriptPath } = await $.session.info()
      const argv = recallArguments(sessionFile(transcriptPath, e.agentId), e.handle, e.query)
      const ran = await $.process.run(argv, { timeoutMs: RECALL_MILLISECONDS_MAX })
      return { result: readRecalled(ran) }
    } catch (error) {
      return { deny: `this cannot be recalled: ${whyOf(error)}` }
    }
  })
}

const offerRecall: Hook<'session.start'> = async ($, e, next) => {
  await $.tool.register(RECALL_SPEC)
  return next(e)
}

const compact: Hook<'session.compact'> = async ($, e, next) => {
  if (e.trigger === 'precompute') return { skip: 'foldback needs no summary ahead of time' }
  let answer: Answer
  try {
    const { transcriptPath } = await $.session.info()
    const { context } = await $.session.usage({ breakdown: 'summary' })
    const isMain = e.agentId === undefined
    const request = {
      version: CONTRACT_VERSION,
      agent: 'claude-code',
      agent_version: (await $.session.version()).version,
      session: sessionFile(transcriptPath, e.agentId),
      session_id: await $.session.id(),
      cwd: await $.session.cwd(),
      reason: e.trigger,
      instructions: e.instructions,
      // These are the main conversation's. A sub-agent may run on another model; its file says which.
      model: isMain ? await $.session.model() : undefined,
      // A compaction window that the person set is smaller than the model's.
      window: isMain ? (context.breakdown?.rawMaxTokens ?? context.window) : undefined,
      used: isMain ? context.tokens : undefined,
      // What they say is in the file. The names tell foldback whether the file is complete.
      messages: e.messages.map(({ role, handle }) => ({ role, handle })),
    }
    const ran = await $.process.run([FOLDBACK, 'hook', 'compact'], {
      stdin: JSON.stringify(request),
      timeoutMs: COMPACT_MILLISECONDS_MAX,
    })
    answer = readAnswer(ran, e.messages)
  } catch (error) {
    answer = { line: `left to Claude Code, because ${whyOf(error)}` }
  }
  const { messages, line } = answer
  const result = messages === undefined ? await next(e) : { messages }
  if (line !== undefined) {
    // Without a screen nothing is drawn anew, and the process may end right after the compaction.
    const isOnScreen = (await $.session.surfaces()).length > 0
    if (isOnScreen) $.clock.after(LINE_DELAY_MILLISECONDS, () => $.ui.log(line))
    else $.ui.log(line)
  }
  return result
}

/** Recall reads only what this conversation held before, so nobody is asked. A rule against it holds. */
const allowRecall: Hook<'tool.check'> = async ($, e, next) => {
  const verdict = await next(e)
  return verdict.decision === 'ask' ? { decision: 'allow' } : verdict
}

/** What is to be done: `messages` in the place of the conversation, or Claude Code's own compaction. */
type Answer = { messages?: Message[]; line?: string }

/** A message as Claude Code takes it. One with a handle is its own, unchanged. */
type Message = {
  role: 'user' | 'assistant'
  text: string
  toolUses: { tool_use_id: string; tool: string; input: Record<string, unknown> }[]
  toolResults?: { tool_use_id: string; text: string; isError: boolean }[]
  handle?: string
}

/** What the program left when it ended. */
type Ran = { exitCode: number; stdout: string; stderr: string; isStdoutTruncated: boolean }

/** The file of the conversation; a sub-agent's lies in a folder beside the session's. */
function sessionFile(transcriptPath: string, agentId: string | undefined): string {
  if (transcriptPath === '') throw new Error('this session is not saved')
  if (agentId === undefined) return transcriptPath
  return transcriptPath.replace(/\.jsonl$/, `/subagents/agent-${agentId}.jsonl`)
}

/** Reads an answer to `hook compact`. `given` are the messages that it may name by their handles. */
function readAnswer(ran: Ran, given: readonly Message[]): Answer {
  const { result, why, line, messages } = readJson(ran)
  if (result === 'unchanged') return { line: `left to Claude Code, because ${why}` }
  if (result !== 'compacted' || !Array.isArray(messages) || messages.length === 0) {
    throw new Error('foldback answered no compaction')
  }
  const byHandle = new Map(given.map((message) => [message.handle, message]))
  return {
    messages: messages.map((message) => readMessage(message, byHandle)),
    line: typeof line === 'string' ? line : undefined,
  }
}

/** A message of an answer: written out, or only the handle of one that stays as it is. */
function readMessage(message: any, byHandle: ReadonlyMap<string | undefined, Message>): Message {
  if (typeof message?.handle === 'string') {
    const kept = byHandle.get(message.handle)
    if (kept === undefined) throw new Error('foldback named a message that is not there')
    return kept
  }
  const isWhole = ['user', 'assistant'].includes(message?.role) && typeof message.text === 'string'
  if (!isWhole) throw new Error('foldback answered a message that cannot be read')
  return { ...message, toolUses: message.toolUses ?? [] }
}

/** The command that reads what is behind a handle. The model's words never become options of it. */
function recallArguments(file: string, handle: unknown, query: unknown): string[] {
  if (typeof handle !== 'string' || !/^@?[0-9a-z]{10}$/.test(handle)) {
    throw new Error('a handle is @ and ten characters')
  }
  const words = typeof query === 'string' && query !== '' ? [`--query=${query}`] : []
  return [FOLDBACK, 'recall', handle, file, ...words]
}

function readRecalled(ran: Ran): string {
  const text = readStdout(ran)
  const rest = text.length - RECALL_CHARACTERS_MAX
  if (rest <= 0) return text
  return `${text.slice(0, RECALL_CHARACTERS_MAX)}\n[${rest} more characters: ask with a query]`
}

function readJson(ran: Ran): Record<string, unknown> {
  if (ran.isStdoutTruncated) throw new Error('the answer of foldback is too long')
  const stdout = readStdout(ran)
  let answer
  try {
    answer = JSON.parse(stdout)
  } catch {
    throw new Error('foldback answered no JSON')
  }
  if (answer?.version !== CONTRACT_VERSION) {
    throw new Error('this module and foldback do not fit together; run foldback install again')
  }
  return answer
}

/** What the program printed. Why it failed stands in its first line. */
function readStdout({ exitCode, stdout, stderr }: Ran): string {
  if (exitCode === 0) return stdout
  throw new Error(firstLine(stderr).replace(/^(error|note): /, '') || `foldback ended with ${exitCode}`)
}

/** Why something failed, on one line. */
function whyOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  // Claude Code writes its own call in front: `foldback: $.process.run(foldback) failed to start`.
  return firstLine(text.replace(/^.*\$\.process\.run\([^)]*\)/, 'foldback')).slice(0, WHY_CHARACTERS_MAX)
}

function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0] ?? ''
}
