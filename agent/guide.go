package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/id"
)

// Guide says what the agent reads beside people's prompts. Its errors are logged: a turn goes on without what could not be read.
type Guide interface {
	// Sections returns what a conversation begins with, always in the same order.
	Sections(ctx context.Context, t Thread) ([]Section, error)
	// Near returns the instructions of the folders above paths. claim is asked once for each folder, and returns false for one whose
	// instructions are known.
	Near(ctx context.Context, workspaceID string, paths []string, claim func(folder string) bool) ([]Instruction, error)
	// Commands returns what people can call by name in a thread, without Text.
	Commands(ctx context.Context, t Thread) ([]Command, error)
	// Command returns one of them; false when there is none of this name.
	Command(ctx context.Context, t Thread, name string) (Command, bool, error)
}

// Section is a part of what the agent reads at the beginning of a conversation. Times and the state of the worktree change at each turn,
// and instructions seldom do: what changed comes in a message, so that providers can go on using what they cached.
type Section struct {
	Title  string `json:"title"`
	Text   string `json:"text"`
	Moving bool   `json:"moving,omitempty"` // it describes the beginning: its changes are of no interest
}

// Instruction is a file with instructions for agents.
type Instruction struct{ Path, Text string }

// Briefing is what a thread has read.
type Briefing struct {
	Begin    string            `json:"begin"`    // the summary or the clear message it was made after; "" = the beginning of the thread
	Sections []Section         `json:"sections"` // in the system prompt
	Known    map[string]string `json:"known"`    // hashes of the sections' texts there, by title
	Told     []Told            `json:"told,omitempty"`
}

// Told is a message that told a thread of changes.
type Told struct {
	MessageID string            `json:"message_id"`
	Known     map[string]string `json:"known"` // hashes of what counts from then on, by title
}

// known is what the model knows: a message that a person took back told it nothing.
func (b Briefing) known(messages []*Message) map[string]string {
	for _, t := range slices.Backward(b.Told) {
		if slices.ContainsFunc(messages, func(m *Message) bool { return m.ID == t.MessageID && m.State == Complete }) {
			return t.Known
		}
	}
	return b.Known
}

// Briefings stores what threads have read.
type Briefings interface {
	// Briefing returns a thread's; false when it has none.
	Briefing(ctx context.Context, threadID string) (Briefing, bool, error)
	// SetBriefing stores it.
	SetBriefing(ctx context.Context, threadID string, b Briefing) error
}

// Bounds of what the agent reads.
const (
	maxSections  = 128 << 10 // bytes in the system prompt
	maxNear      = 24 << 10  // bytes of the instructions of folders with one result
	maxFolders   = 40        // files of folders that a conversation has
	maxTold      = 50        // changes since the beginning that are remembered: after an undo of more, all that changed is said
	nearTakes    = 10 * time.Second
	changedIntro = "Parawork: what you read at the beginning of this conversation has changed. From now on this counts:\n"
)

// instruct makes the system prompt. It is the same at every step of a turn, and as long as the mode stays at every turn until the
// conversation is summarized or cleared, so that providers can cache it.
func (r *running) instruct(ctx context.Context) error {
	has := func(tool string) bool { _, ok := r.specs[tool]; return ok }
	r.system = []providers.System{{Text: promptFor(r.thread.Mode, has), Cache: true}}
	if r.svc.cfg.Guide == nil {
		return nil
	}
	b, err := r.brief(ctx)
	if err != nil {
		return err
	}
	if text := told(b.Sections); text != "" {
		r.system = append(r.system, providers.System{Text: text, Cache: true})
	}
	return nil
}

// brief returns what the thread has read, and tells it what has changed since.
func (r *running) brief(ctx context.Context) (Briefing, error) {
	kept, known, err := r.svc.cfg.Briefings.Briefing(ctx, r.thread.ID)
	if err != nil {
		return kept, err
	}
	sections, err := r.svc.cfg.Guide.Sections(ctx, r.thread)
	if err != nil {
		r.svc.cfg.Log.Warn("the instructions for the agent could not be read", "thread_id", r.thread.ID, "error", err)
		if known {
			return kept, nil
		}
		return Briefing{Sections: sections}, nil
	}
	for i := range sections {
		sections[i].Text = r.mask(sections[i].Text)
	}
	now := Briefing{Begin: r.begins(), Sections: sections, Known: map[string]string{}}
	for _, s := range sections {
		if !s.Moving {
			sum := sha256.Sum256([]byte(s.Text))
			now.Known[s.Title] = hex.EncodeToString(sum[:8])
		}
	}
	if known && kept.Begin == now.Begin {
		var b strings.Builder
		before := kept.known(r.messages)
		for _, s := range sections {
			if !s.Moving && before[s.Title] != now.Known[s.Title] {
				fmt.Fprintf(&b, "\n# %s\n%s\n", s.Title, s.Text)
			}
		}
		for title := range before {
			if now.Known[title] == "" {
				fmt.Fprintf(&b, "\n# %s\nThere is nothing any more: what you read there no longer counts.\n", title)
			}
		}
		if b.Len() == 0 {
			return kept, nil
		}
		m, err := r.notify(ctx, changedIntro+b.String())
		if err != nil {
			return kept, err
		}
		told := append(kept.Told, Told{m.ID, now.Known})
		now.Sections, now.Known, now.Told = kept.Sections, kept.Known, told[max(len(told)-maxTold, 0):]
	}
	return now, r.svc.cfg.Briefings.SetBriefing(ctx, r.thread.ID, now)
}

// begins is the message from which on the model is sent the conversation; "" = the first.
func (r *running) begins() string {
	for _, m := range slices.Backward(r.messages) {
		if m.State == Complete && (m.Role == Summary || m.Role == Clear) {
			return m.ID
		}
	}
	return ""
}

// notify adds a message that Parawork writes.
func (r *running) notify(ctx context.Context, text string) (*Message, error) {
	now := r.svc.now()
	m := &Message{ID: id.New("msg"), ThreadID: r.thread.ID, TurnID: r.turn.ID, Role: Note, State: Complete, Parts: textParts(text), CreatedAt: now, DoneAt: now}
	if err := r.apply(ctx, Change{Messages: []*Message{m}}); err != nil {
		return nil, err
	}
	r.messages = append(r.messages, m)
	return m, nil
}

// told is what the system prompt has of sections.
func told(sections []Section) string {
	var b strings.Builder
	for _, s := range sections {
		switch {
		case s.Text == "":
		case b.Len()+len(s.Text) > maxSections:
			fmt.Fprintf(&b, "# %s\nThis is too long to be included.\n\n", s.Title)
		default:
			fmt.Fprintf(&b, "# %s\n%s\n\n", s.Title, s.Text)
		}
	}
	return strings.TrimSpace(b.String())
}

const nearTag = "<instructions file="

// folders are those whose instructions were read since the conversation's beginning.
type folders struct {
	mu    sync.Mutex
	known map[string]bool
	since string // the message from which on the model is sent the conversation
	files int    // that the model has read
}

// claim reports whether the instructions of a folder are wanted; they are once.
func (f *folders) claim(folder string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[folder] || f.files >= maxFolders || len(f.known) >= 100*maxFolders {
		return false
	}
	f.known[folder] = true
	return true
}

// recallFolders finds the folders whose instructions the conversation has. No call is being made.
func (r *running) recallFolders() {
	begin := r.begins()
	if r.folders.known != nil && r.folders.since == begin {
		return
	}
	known := map[string]bool{}
	for _, m := range r.messages {
		if m.Role == Summary || m.Role == Clear {
			clear(known)
		}
		for _, c := range r.calls[m.ID] {
			for _, p := range c.Content {
				if rest, ok := strings.CutPrefix(p.Text, nearTag); ok && p.Kind == providers.Text {
					var file string
					if line, _, ok := strings.Cut(rest, ">\n"); ok && json.Unmarshal([]byte(line), &file) == nil {
						folder, _, _ := cutLast(file, "/")
						known[folder] = true
					}
				}
			}
		}
	}
	r.folders.known, r.folders.since, r.folders.files = known, begin, len(known)
}

// cutLast is strings.Cut at the last place.
func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// near are the instructions of the folders that a call works in, for the model to read with its result.
func (r *running) near(ctx context.Context, c *Call) []providers.Part {
	paths := pathsOf(c.Args)
	if r.svc.cfg.Guide == nil || len(paths) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nearTakes)
	defer cancel()
	found, err := r.svc.cfg.Guide.Near(ctx, r.thread.WorkspaceID, paths, r.folders.claim)
	if err != nil {
		r.svc.cfg.Log.Warn("the instructions of a folder could not be read", "thread_id", r.thread.ID, "error", err)
		return nil
	}
	r.folders.mu.Lock()
	r.folders.files += len(found)
	r.folders.mu.Unlock()
	var parts []providers.Part
	left := maxNear
	for _, f := range found {
		name, err := json.Marshal(f.Path)
		if err != nil {
			continue
		}
		text := f.Text
		if len(text) > left {
			text = "This file is too long to be included. Read it."
		}
		left -= len(text)
		parts = append(parts, textParts(fmt.Sprintf("%s%s>\n%s\n</instructions>", nearTag, name, text))...)
	}
	return parts
}

// pathsOf are the paths that the arguments of a call name.
func pathsOf(args json.RawMessage) (paths []string) {
	var a struct {
		Path, Root, File, Cwd any
		Paths                 any
	}
	if json.Unmarshal(args, &a) != nil {
		return nil
	}
	add := func(v any) {
		if s, ok := v.(string); ok && s != "" && len(s) <= 4096 && len(paths) < 20 {
			paths = append(paths, s)
		}
	}
	for _, v := range []any{a.Path, a.Root, a.File, a.Cwd} {
		add(v)
	}
	if list, ok := a.Paths.([]any); ok {
		for _, v := range list {
			add(v)
		}
	}
	return paths
}
