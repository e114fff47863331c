package conversation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/usagelimit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// records are what the real agents wrote about scripted tasks, without what their makers put in.
var records = map[string]conversation.Record{
	"claude-task": {Format: conversation.Claude, Name: "claude/projects/*/task.jsonl", Subs: "claude/projects/*/task/subagents/agent-*.jsonl"},
	"claude-terminal": {Format: conversation.Claude, Name: "claude/projects/*/terminal.jsonl",
		Subs: "claude/projects/*/terminal/subagents/agent-*.jsonl"},
	"codex-classic":       {Format: conversation.Codex, Name: "codex/classic.jsonl"},
	"codex-code-mode":     {Format: conversation.Codex, Name: "codex/code-mode.jsonl"},
	"codex-unknown-model": {Format: conversation.Codex, Name: "codex/unknown-model.jsonl"},
	"codex-terminal":      {Format: conversation.Codex, Name: "codex/terminal.jsonl"},
}

func dir(t testing.TB, path string) *homedir.Dir {
	t.Helper()
	d, err := homedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func lines(t testing.TB, items []conversation.Item) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, it := range items {
		if err := e.Encode(it); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// What the agents really write becomes the items of the golden files.
func TestRecordsOfRealAgents(t *testing.T) {
	t.Parallel()
	for name, rec := range records {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := conversation.NewReader(conversation.Config{Record: rec, Root: "/srv/repo"})
			items, err := r.End(t.Context(), dir(t, "testdata"), 0)
			if err != nil {
				t.Fatal(err)
			}
			got := lines(t, items)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A record that comes in pieces of any size gives the same items in the end as one that lies there whole.
func TestPieces(t *testing.T) {
	t.Parallel()
	for name, rec := range records {
		whole, err := os.ReadFile(filepath.Join("testdata", strings.ReplaceAll(rec.Name, "*", "repo")))
		if err != nil {
			t.Fatal(err)
		}
		rec.Name, rec.Subs = "record.jsonl", ""
		tmp := t.TempDir()
		path := filepath.Join(tmp, rec.Name)
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		src := dir(t, tmp)
		r := conversation.NewReader(conversation.Config{Record: rec})
		want, err := r.End(t.Context(), src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{977, 4099} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := conversation.NewReader(conversation.Config{Record: rec})
			w := conversation.NewWriter(filepath.Join(tmp, "kept"+name), 1<<20)
			for piece := range slices.Chunk(whole, size) {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.Write(piece); err != nil {
					t.Fatal(err)
				}
				f.Close()
				items, _, err := r.Read(t.Context(), src)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := w.Append(items, nil, false); err != nil {
					t.Fatal(err)
				}
			}
			items, err := r.End(t.Context(), src, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Append(items, nil, false); err != nil {
				t.Fatal(err)
			}
			p, err := conversation.NewView(filepath.Join(tmp, "kept"+name)).Page(conversation.Query{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			var got []conversation.Item
			for _, it := range p.Items {
				got = append(got, it.Item)
			}
			byID := func(a, b conversation.Item) int { return strings.Compare(a.ID, b.ID) }
			slices.SortFunc(got, byID)
			all := slices.Clone(want)
			slices.SortFunc(all, byID)
			if a, b := lines(t, got), lines(t, all); !bytes.Equal(a, b) {
				t.Errorf("%s in pieces of %d: got\n%s\nwant\n%s", name, size, a, b)
			}
			if err := os.Remove(filepath.Join(tmp, "kept"+name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a sub-agent did never stands before the call that started it, however late that is written.
func TestSubAgentsWaitForTheirCall(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	if err := os.CopyFS(tmp, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tmp, "claude", "projects", "repo", "task.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	src, rec := dir(t, tmp), records["claude-task"]
	for cut := bytes.IndexByte(whole, '\n') + 1; cut < len(whole); cut += bytes.IndexByte(whole[cut:], '\n') + 1 {
		r := conversation.NewReader(conversation.Config{Record: rec})
		var all []conversation.Item
		for _, piece := range [][]byte{whole[:cut], whole} {
			if err := os.WriteFile(path, piece, 0o600); err != nil {
				t.Fatal(err)
			}
			items, _, err := r.Read(t.Context(), src)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, items...)
		}
		items, err := r.End(t.Context(), src, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen, subs := map[string]bool{"": true}, 0
		for _, it := range append(all, items...) {
			if seen[it.ID] = true; it.Parent != "" {
				subs++
			}
			if !seen[it.Parent] {
				t.Fatalf("cut at %d: %s %q stands before the call that started it", cut, it.Kind, it.Text)
			}
		}
		if subs == 0 {
			t.Fatalf("cut at %d: nothing of the sub-agent", cut)
		}
	}
	// One whose call never comes is shown all the same.
	if err := os.WriteFile(path, whole[:bytes.IndexByte(whole, '\n')+1], 0o600); err != nil {
		t.Fatal(err)
	}
	r := conversation.NewReader(conversation.Config{Record: rec})
	subs := 0
	for more := true; more; {
		var items []conversation.Item
		if items, more, err = r.Read(t.Context(), src); err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if it.Parent != "" {
				subs++
			}
		}
	}
	if subs == 0 {
		t.Error("nothing of a sub-agent without its call")
	}
}

// A turn whose prompt is written behind the first answer to it spends once.
func TestPromptBehindItsAnswer(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	answer := func(id string, second int) string {
		return fmt.Sprintf(`{"type":"assistant","uuid":"%s","timestamp":"2026-01-02T03:04:%02dZ","message":{"id":"%s","role":"assistant","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":10,"output_tokens":1}}}`+"\n", id, second, id, id)
	}
	record := answer("a", 6) + one("u", "go on") + answer("b", 7) + strings.Replace(one("v", "next"), ":05Z", ":08Z", 1) + answer("c", 9)
	if err := os.WriteFile(filepath.Join(tmp, "x"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	items, err := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: "x"}}).End(t.Context(), dir(t, tmp), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range items {
		if it.Usage != nil {
			got = append(got, fmt.Sprint(it.Usage.Input))
		} else {
			got = append(got, it.Text)
		}
	}
	if want := "go on a b 20 next c 10"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The result of a tool call counts also where it is written before the call.
func TestResultBeforeItsCall(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	call := `{"type":"assistant","uuid":"a%d","timestamp":"2026-01-02T03:04:0%dZ","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"ls"}}]}}` + "\n"
	result := `{"type":"user","uuid":"r%d","timestamp":"2026-01-02T03:04:0%dZ","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"said %d"}]}}` + "\n"
	record := fmt.Sprintf(call, 1, 5, 1) + fmt.Sprintf(result, 2, 6, 2, 2) + fmt.Sprintf(result, 9, 6, 9, 9) + fmt.Sprintf(call, 2, 6, 2) + fmt.Sprintf(result, 1, 7, 1, 1)
	if err := os.WriteFile(filepath.Join(tmp, "x"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	items, err := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: "x"}}).End(t.Context(), dir(t, tmp), 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range items {
		got = append(got, it.ID+" "+it.Status+" "+it.Output)
	}
	if want := "t1 ok said 1, t2 ok said 2"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
}

const said = `{"type":"user","uuid":"u%d","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"%s"}}` + "\n"

func one(id, text string) string {
	return strings.NewReplacer("u%d", id, "%s", text).Replace(said)
}

func texts(items []conversation.Item) string {
	var out []string
	for _, it := range items {
		out = append(out, it.Text)
	}
	return strings.Join(out, "|")
}

// A line that is not whole yet waits; a record that is replaced or cut is read again; one that is gone ends nothing.
func TestTornReplacedAndGone(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	path := filepath.Join(tmp, "r.jsonl")
	src := dir(t, tmp)
	r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: "r.jsonl"}})
	read := func() string {
		t.Helper()
		items, _, err := r.Read(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		return texts(items)
	}
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(); got != "" {
		t.Errorf("without a record: %q", got)
	}
	a, b := one("a", "first"), one("b", "second")
	write(a + b[:40])
	if got := read(); got != "first" {
		t.Errorf("torn: %q", got)
	}
	write(a + b)
	if got := read(); got != "second" || r.Again() {
		t.Errorf("whole: %q", got)
	}
	write(one("c", "third"))
	if got := read(); got != "third" || !r.Again() {
		t.Errorf("cut: %q", got)
	}
	if err := os.WriteFile(path+".new", []byte(one("d", "fourth")+a), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "fourth|first" || !r.Again() {
		t.Errorf("replaced: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "" {
		t.Errorf("gone: %q", got)
	}
	write(b + strings.TrimSuffix(one("e", "last"), "\n"))
	if items, err := r.End(t.Context(), src, 0); err != nil || texts(items) != "second|last" {
		t.Errorf("the end: %q, %v", texts(items), err)
	}
}

// What lies in the record's place but is no plain file is not opened, and a line without end costs no memory.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret.jsonl")
	if err := os.WriteFile(secret, []byte(one("s", "secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"a link out":      func(p string) error { return os.Symlink(secret, p) },
		"a link within":   func(p string) error { return os.Symlink("other", p) },
		"a pipe":          func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a folder":        func(p string) error { return os.Mkdir(p, 0o700) },
		"a linked folder": func(p string) error { return os.Symlink(filepath.Dir(secret), filepath.Dir(p)+"/x") },
	} {
		d := filepath.Join(tmp, strings.ReplaceAll(name, " ", "-"))
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "other"), []byte(one("o", "other")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(d, "r.jsonl")); err != nil {
			t.Fatal(err)
		}
		for _, pattern := range []string{"r.jsonl", "*.jsonl", "*/secret.jsonl", "x/secret.jsonl"} {
			r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: pattern}})
			items, _, err := r.Read(t.Context(), dir(t, d))
			if len(items) != 0 || err != nil {
				t.Errorf("%s as %s: %v, %v", name, pattern, items, err)
			}
		}
		if f, err := dir(t, d).Open("r.jsonl"); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	d := filepath.Join(tmp, "long")
	if err := os.Mkdir(d, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(d, "r.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{one("a", "before"), `{"type":"user","message":"`, strings.Repeat("x", 20<<20), "\"}\n", one("b", "after")} {
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: "r.jsonl"}})
	items, err := r.End(t.Context(), dir(t, d), 0)
	if err != nil || texts(items) != "before|A record of more than 8 MiB was left out.|after" {
		t.Errorf("%q, %v", texts(items), err)
	}
}

// Fields are cut, control characters removed, secrets masked, and what belongs to another session left out.
func TestFields(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	long := strings.Repeat("ä", 100<<10)
	text := one("old", "of before") + one("a", `\u001b[31mred\u001b[0m \u0007bell\r\nline hunter2`) + one("b", long)
	text = strings.Replace(text, "2026-01-02", "2025-01-02", 1)
	if err := os.WriteFile(filepath.Join(tmp, "r.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: "r.jsonl"}, Since: 1767225600000,
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "*******") }})
	items, err := r.End(t.Context(), dir(t, tmp), 0)
	if err != nil || len(items) != 2 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if items[0].Text != "red bell\nline *******" || items[0].Cut {
		t.Errorf("%q", items[0].Text)
	}
	if n := len(items[1].Text); n != 64<<10 || !items[1].Cut {
		t.Errorf("%d bytes, cut %v", n, items[1].Cut)
	}
}

func FuzzReaders(f *testing.F) {
	for _, rec := range records {
		raw, err := os.ReadFile(filepath.Join("testdata", strings.ReplaceAll(rec.Name, "*", "repo")))
		if err != nil {
			f.Fatal(err)
		}
		for l := range bytes.Lines(raw) {
			f.Add(rec.Format == conversation.Codex, l)
		}
	}
	f.Fuzz(func(t *testing.T, codex bool, raw []byte) {
		format := conversation.Claude
		if codex {
			format = conversation.Codex
		}
		src := memory{raw}
		r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: format, Name: "x"}, Root: "/srv"})
		items, err := r.End(context.Background(), src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if it.ID == "" || len(it.ID) > 80 || len(it.Text) > 64<<10 || len(it.Diff) > 32<<10 || len(it.Title) > 400 || !slices.Contains(conversation.Kinds, it.Kind) {
				t.Fatalf("%+v", it)
			}
			for _, s := range []string{it.Text, it.Title, it.Tool, it.Path, it.Input, it.Output, it.Diff} {
				if strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }) || strings.ToValidUTF8(s, "") != s {
					t.Fatalf("%q", s)
				}
			}
			if it.Status == conversation.Running {
				t.Fatalf("still running at the end: %+v", it)
			}
		}
	})
}

// memory is a Source of one file in memory.
type memory struct{ raw []byte }

func (m memory) Glob(string) ([]string, error) { return []string{"x"}, nil }
func (m memory) Open(string) (homedir.File, error) {
	return memoryFile{bytes.NewReader(m.raw), int64(len(m.raw))}, nil
}
func (m memory) Close() error { return nil }

type memoryFile struct {
	*bytes.Reader
	size int64
}

func (f memoryFile) Stat() (int64, string, error) { return f.size, "1", nil }
func (f memoryFile) Close() error                 { return nil }

// Each answer of the model is reported once, with its whole usage, however many lines it has; reading a record again reports the same.
func TestRepliesOfRealAgents(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"claude-task":   "msg_000001 claude-opus-4-8 100 20 1000 50|msg_000003 claude-opus-4-8 110 30 1100 0|msg_000006 claude-opus-4-8 120 40 0 0|msg_000013 claude-opus-4-8 130 50 0 0",
		"codex-classic": "resp_000006 gpt-5.5 100 20 1000 0|resp_000011 gpt-5.5 110 30 0 0|resp_000016 gpt-5.5 110 30 0 0|resp_000018 gpt-5.5 130 50 0 0",
	} {
		var reported []string
		r := conversation.NewReader(conversation.Config{Record: records[name], Root: "/srv/repo"})
		if _, err := r.End(t.Context(), dir(t, "testdata"), 0); err != nil {
			t.Fatal(err)
		}
		for _, a := range r.Replies() {
			reported = append(reported, fmt.Sprintf("%s %s %d %d %d %d", a.ID, a.Model, a.Usage.Input, a.Usage.Output, a.Usage.CacheRead, a.Usage.CacheWrite))
			if a.At == 0 {
				t.Errorf("%s: %+v has no time", name, a)
			}
		}
		if more := r.Replies(); len(more) != 0 {
			t.Errorf("%s: told twice: %v", name, more)
		}
		if got := strings.Join(reported, "|"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

// Claude Code notes how long a turn took also after an error ended it: the turn has failed all the same.
func TestATurnThatFailedStaysFailed(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	write := func(lines string) conversation.Moment {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tmp, "r.jsonl"), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Claude, Name: "r.jsonl"}})
		if _, err := r.End(t.Context(), dir(t, tmp), 0); err != nil {
			t.Fatal(err)
		}
		return r.Moment()
	}
	failed := `{"type":"user","uuid":"a","timestamp":"2026-11-27T22:14:29.266Z","message":{"role":"user","content":"Fail."}}
{"type":"assistant","uuid":"b","timestamp":"2026-11-27T22:14:30.177Z","isApiErrorMessage":true,"message":{"id":"m","model":"<synthetic>","role":"assistant","stop_reason":"stop_sequence","content":[{"type":"text","text":"API Error: 400 no"}]}}
{"type":"system","subtype":"turn_duration","uuid":"c","timestamp":"2026-11-27T22:14:30.198Z","durationMs":494}
`
	if m := write(failed); m.Phase != conversation.Broken || m.Words != "API Error: 400 no" {
		t.Errorf("after an error: %+v", m)
	}
	if m := write(failed + `{"type":"user","uuid":"d","timestamp":"2026-11-27T22:15:00.000Z","message":{"role":"user","content":"Again."}}
{"type":"system","subtype":"turn_duration","uuid":"e","timestamp":"2026-11-27T22:15:10.000Z","durationMs":9}
`); m.Phase != conversation.Done {
		t.Errorf("after the next turn: %+v", m)
	}
}

// Lines that the real agents wrote when their provider's limit was reached, and the same words where anybody could have put them.
func TestLimits(t *testing.T) {
	t.Parallel()
	read := func(format, lines string) *usagelimit.Limit {
		t.Helper()
		r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: format, Name: "x"}})
		if _, err := r.End(t.Context(), memory{[]byte(lines)}, 0); err != nil {
			t.Fatal(err)
		}
		return r.Moment().Limit
	}
	const claude = `{"type":"user","uuid":"a","timestamp":"2026-11-28T07:23:30.000Z","message":{"role":"user","content":"hi"}}
{"parentUuid":"a","isSidechain":false,"type":"assistant","uuid":"b","timestamp":"2026-11-28T07:23:33.979Z","message":{"id":"m","model":"<synthetic>","role":"assistant","stop_reason":"stop_sequence","content":[{"type":"text","text":"You've hit your session limit · resets 10:23am (UTC)"}]},"error":"rate_limit","isApiErrorMessage":true,"apiErrorStatus":429}
`
	const codex = `{"timestamp":"2026-11-28T07:23:41.084Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}
{"timestamp":"2026-11-28T07:23:41.558Z","type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":{"limit_id":"codex","primary":{"used_percent":100.0,"window_minutes":300,"resets_at":1795861421},"secondary":{"used_percent":40.0,"window_minutes":10080,"resets_at":1795947821},"credits":null}}}
{"timestamp":"2026-11-28T07:23:41.562Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"t","last_agent_message":null,"error":{"message":"You’ve hit your usage limit. Try again at 10:23 AM.","codex_error_info":"usage_limit_exceeded"}}}
`
	if l := read(conversation.Claude, claude); l == nil || l.Kind != usagelimit.Session || time.UnixMilli(l.Until).UTC().Format(time.TimeOnly) != "10:23:00" {
		t.Errorf("Claude Code: %+v", l)
	}
	if l := read(conversation.Codex, codex); l == nil || l.Kind != usagelimit.Session || l.Until != 1795861421000 {
		t.Errorf("Codex: %+v", l)
	}
	odd := strings.NewReplacer(`"info":null`, `"info":{"last_token_usage":{"input_tokens":7}}`, `"resets_at":1795861421`, `"resets_at":"soon"`).Replace(codex)
	if l := read(conversation.Codex, odd); l == nil || l.Until != 0 {
		t.Errorf("Codex, with limits of another shape: %+v", l)
	}
	r := conversation.NewReader(conversation.Config{Record: conversation.Record{Format: conversation.Codex, Name: "x"}})
	if items, err := r.End(t.Context(), memory{[]byte(odd)}, 0); err != nil || !slices.ContainsFunc(items, func(it conversation.Item) bool { return it.Usage != nil && it.Usage.Input == 7 }) {
		t.Errorf("their answer is not counted: %+v, %v", items, err)
	}
	for what, r := range map[string][2]string{
		"the model's own words": {conversation.Claude, strings.NewReplacer(`"isApiErrorMessage":true,`, "", `"error":"rate_limit",`, "").Replace(claude)},
		"a tool's output": {conversation.Claude, `{"type":"user","uuid":"a","timestamp":"2026-11-28T07:23:30.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"You've hit your session limit · resets 10:23am (UTC)"}]}}
`},
		"another error":         {conversation.Claude, strings.Replace(claude, `"error":"rate_limit"`, `"error":"server_error"`, 1)},
		"an error of an object": {conversation.Codex, strings.Replace(codex, `"codex_error_info":"usage_limit_exceeded"`, `"codex_error_info":{"usage_limit_exceeded":1}`, 1)},
		"the next turn": {conversation.Codex, codex + `{"timestamp":"2026-11-28T07:24:00.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"u"}}
`},
	} {
		if l := read(r[0], r[1]); l != nil {
			t.Errorf("%s: %+v", what, l)
		}
	}
}
