#!/usr/bin/env bash
# Records docs/recording.svg from a real terminal: `record.sh FOLDBACK PI [FOLDER]`.
# FOLDBACK and PI are the programs (pi 1.5 or later). Needs tmux, python3, and fd and rg for pi; reaches no network.
# pi talks to the scripted model of model.py. FOLDER (/tmp/demo) is the home of the recording; one of an earlier
# recording is emptied first.
set -euo pipefail

foldback=$(realpath "$1") pi=$(realpath "$2") folder=${3:-/tmp/demo}
here=$(cd "$(dirname "$0")" && pwd)
columns=92 rows=27 wait_count_max=100 port=18473
frames=$folder/recording

if [[ -e $folder && ! -e $folder/recording ]]; then
  printf '%s is in the way: it holds no earlier recording\n' "$folder" >&2
  exit 1
fi
rm -rf "$folder"
mkdir -p "$frames" "$folder/bin" "$folder/.pi/agent" "$folder/orders"
cp "$foldback" "$folder/bin/foldback"
ln -s "$pi" "$folder/bin/pi"
(cd "$folder/orders" && python3 "$here/project.py")
cat >"$folder/.pi/agent/models.json" <<JSON
{"providers": {"scripted": {"baseUrl": "http://127.0.0.1:$port/v1", "api": "openai-completions", "apiKey": "none",
 "models": [{"id": "scripted-model", "contextWindow": 32000, "maxTokens": 4000, "input": ["text"],
 "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}}
JSON
cat >"$folder/.pi/agent/settings.json" <<JSON
{"defaultProvider": "scripted", "defaultModel": "scripted-model", "theme": "dark", "quietStartup": true,
 "compaction": {"reserveTokens": 4000, "keepRecentTokens": 4000}}
JSON

python3 "$here/model.py" "$port" &
model=$!
terminal() { tmux -L foldback-recording "$@"; }
trap 'terminal kill-server 2>/dev/null || true; kill "$model" 2>/dev/null || true' EXIT

terminal -f /dev/null new-session -d -x "$columns" -y "$rows" -c "$folder/orders" \
  env -i HOME="$folder" PATH="$folder/bin:$PATH" TERM=tmux-256color COLORTERM=truecolor LANG=C.UTF-8 PS1='$ ' \
  PI_OFFLINE=1 PI_SKIP_VERSION_CHECK=1 bash --norc --noprofile +o history
terminal set -g status off

screen() { printf '\n'; terminal capture-pane -p; }
write() { terminal send-keys -l -- "$1"; }
key() { terminal send-keys "$1"; }

# Waits until the screen shows a text and has come to rest.
shows() {
  local text=$1 before="" now=""
  for ((waited = 0; waited < wait_count_max; waited++)); do
    now=$(screen)
    if [[ $now == *"$text"* && $now == "$before" && $now != *"Working..."* ]]; then return; fi
    before=$now
    sleep 0.3
  done
  printf 'the terminal never showed: %s\n%s\n' "$text" "$now" >&2
  exit 1
}

# Waits until the shell asks for the next command: the last line is a bare prompt.
prompted() {
  for ((waited = 0; waited < wait_count_max; waited++)); do
    if [[ $(screen) == *$'\n$' ]]; then return; fi
    sleep 0.3
  done
  printf 'the shell never came back:\n%s\n' "$(screen)" >&2
  exit 1
}

# Keeps the screen as the next frame: `frame MILLISECONDS`.
frame_count=0
frame() {
  frame_count=$((frame_count + 1))
  terminal capture-pane -e -p -N >"$frames/$(printf '%02d-%s' "$frame_count" "$1").ansi"
}

# Runs a command of the shell, and waits for the next prompt.
run() { type_in "$1"; key Enter; prompted; }

# Asks pi's model, and waits for a text of its answer.
ask() { type_in "$1"; key Enter; shows "$2"; }

# Types a text and waits until it is there; of a long one, pi breaks the line before its end.
type_in() { write "$1"; shows "${1: -7}"; }

prompted
write 'foldback install pi'
key Enter
shows '[y/N]'
key y
shows $'\ny'
frame 3000
key Enter
shows 'checks it'
frame 2500

write 'pi'
key Enter
shows 'scripted-model'
type_in "Last night's import took 41 minutes instead of 4. Why? See import.log, and leave the schema alone."
frame 2500
key Enter
shows 'retries'
frame 3500
ask 'Fix it, and run the tests.' 'Fixed:'
frame 3000
ask 'Does any other batch wait for a lock?' 'Batches'
frame 3000
type_in '/compact'
frame 2000
key Enter
shows 'recalled'
frame 4000
ask 'Which request was the first to fail, and with which words?' 'word for word'
frame 4000
key C-d
prompted
key C-l
run 'foldback status'
frame 3500
key C-l
run 'foldback undo'
frame 3500
write 'pi --continue'
key Enter
shows 'word for word'
ask 'How often did it try in all?' 'attempts'
frame 4000

python3 "$here/make.py" "$frames" "$here/../recording.svg"
