package conversation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/sessions/usagelimit"
)

// Formats of records.
const (
	Claude = "claude"
	Codex  = "codex"
)

// Record describes where an agent stores the record of a conversation.
type Record struct {
	Format string // Claude or Codex
	Name   string // pattern of path.Match below the Source: the record
	Subs   string // the same for the records of sub-agents; "" = none
}

// Config configures a Reader.
type Config struct {
	Record Record
	Root   string              // the worktree as the agent sees it: paths in it become relative
	Since  int64               // ms UTC: earlier entries belong to an earlier session of the same conversation and make no items
	Until  int64               // ms UTC, 0 = no end: later entries make no items
	Mask   func(string) string // masks secrets; nil = nothing to mask
}

// Reader turns the record of one conversation into items. Not safe for concurrent use.
type Reader struct {
	cfg   Config
	main  tail
	subs  map[string]*sub
	parse parser
	sink  sink
	more  bool
	again bool
	over  int64 // when it ended
}

// sub is the record of a sub-agent.
type sub struct {
	tail   tail
	parse  parser
	parent string // ID of the tool call that started it, "" while unknown
	early  int    // passes in which that call had not been read yet
}

// maxEarly bounds the passes a sub-agent's record waits for the call that started it.
const maxEarly = 5

// parser turns the lines of one record into items.
type parser interface {
	line(s *sink, at int64, line []byte)
	// rest emits what was held back until more would come.
	rest(s *sink)
}

// maxSubs bounds the records of sub-agents that are read for one conversation.
const maxSubs = 200

// NewReader returns a Reader; nil when the format is unknown. It opens nothing yet.
func NewReader(cfg Config) *Reader {
	r := &Reader{cfg: cfg, subs: map[string]*sub{}}
	switch cfg.Record.Format {
	case Claude:
		r.parse = &claude{}
	case Codex:
		r.parse = &codex{}
	default:
		return nil
	}
	sum := sha256.Sum256([]byte(cfg.Record.Name))
	r.sink = sink{cfg: &r.cfg, open: map[string]*Item{}, calls: map[string]bool{}, record: hex.EncodeToString(sum[:4])}
	return r
}

// Read returns the items that are new or changed since the last call, ordered by time. more reports that there is more to read at
// once. An error loses nothing: the next call continues. A missing record is not an error.
func (r *Reader) Read(ctx context.Context, src Source) (items []Item, more bool, err error) {
	return r.pass(ctx, src, false)
}

// End reads the rest, including a last line without an end, and closes what is open: nothing more will come. at is now, in ms
// UTC.
func (r *Reader) End(ctx context.Context, src Source, at int64) ([]Item, error) {
	var all []Item
	for {
		r.over = max(at, 1)
		items, more, err := r.pass(ctx, src, true)
		all = append(all, items...)
		if err != nil || !more {
			return all, err
		}
	}
}

// Again reports, once, whether the record was read from its beginning again: known items then come once more.
func (r *Reader) Again() bool {
	again := r.again
	r.again = false
	return again
}

// Replies returns the model's answers that the calls since the last Replies read. An answer that is read again is returned again.
func (r *Reader) Replies() []Reply {
	all := r.sink.replies
	r.sink.replies = nil
	return all
}

// Moment returns the newest thing the record said about the turn.
func (r *Reader) Moment() Moment { return r.sink.moment }

func (r *Reader) pass(ctx context.Context, src Source, last bool) ([]Item, bool, error) {
	r.sink.batch()
	r.more = false
	err := r.readMain(ctx, src, last)
	if err == nil && r.cfg.Record.Subs != "" && r.main.off > 0 {
		err = r.readSubs(ctx, src, last)
	}
	if last && (err != nil || !r.more) {
		r.parse.rest(&r.sink)
		for _, s := range r.subs {
			s.parse.rest(&r.sink)
		}
		r.sink.parent, r.sink.file, r.sink.at = "", "", max(r.over, r.sink.at)
		r.sink.close(Stopped)
	}
	return r.sink.take(), r.more, err
}

func (r *Reader) readMain(ctx context.Context, src Source, last bool) error {
	if r.main.name == "" {
		found, err := src.Glob(r.cfg.Record.Name)
		if err != nil {
			return fmt.Errorf("looking for the record: %w", err)
		}
		if len(found) == 0 {
			return nil
		}
		r.main.name = found[len(found)-1]
	}
	r.sink.parent, r.sink.file = "", ""
	again, more, err := r.main.read(ctx, src, last, func(at int64, line []byte) { r.line(r.parse, at, line) })
	if again {
		r.again = true
	}
	r.more = r.more || more
	if errors.Is(err, fs.ErrNotExist) { // removed: what was read stays
		r.main = tail{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.main.name, err)
	}
	return nil
}

func (r *Reader) line(p parser, at int64, line []byte) {
	r.sink.off = at
	if line == nil {
		r.sink.put(Item{ID: r.sink.fallback("long"), Kind: Note, Topic: Skipped, Text: "A record of more than 8 MiB was left out."})
		return
	}
	if len(line) > 0 {
		p.line(&r.sink, at, line)
	}
}

// readSubs reads the records of sub-agents. It runs after the main record is read, so that the call that started them is known.
// An agent may have written both since then, or may write the call late: then a sub-agent's record waits for a few passes.
func (r *Reader) readSubs(ctx context.Context, src Source, last bool) error {
	names, err := src.Glob(r.cfg.Record.Subs)
	if err != nil {
		return nil // nothing depends on them
	}
	for _, name := range names {
		s := r.subs[name]
		if s == nil {
			if len(r.subs) >= maxSubs {
				break
			}
			s = &sub{tail: tail{name: name}, parse: &claude{side: true}}
			r.subs[name] = s
		}
		if s.parent == "" {
			s.parent = parentOf(src, name)
		}
		if !r.sink.calls[s.parent] && s.early < maxEarly && !last {
			s.early++
			r.more = true
			continue
		}
		r.sink.parent, r.sink.file = s.parent, path.Base(name)
		again, more, err := s.tail.read(ctx, src, last, func(at int64, line []byte) { r.line(s.parse, at, line) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // one that cannot be read does not stop the others
		}
		r.again, r.more = r.again || again, r.more || more
	}
	return nil
}

// sink gathers the items of a pass.
type sink struct {
	cfg    *Config
	parent string // of the entry being read
	file   string // name of the record being read, "" for the main one
	record string // distinguishes this conversation from another one of the same session
	off    int64  // of the line being read
	at     int64  // time of the entry being read
	open   map[string]*Item
	calls  map[string]bool // IDs of the tool calls so far
	out    []Item
	index  map[string]int // index in out
	moment Moment

	replies []Reply
}

// maxReplies bounds the answers held until somebody calls Replies.
const maxReplies = 50_000

// reply adds an answer of the model.
func (s *sink) reply(a Reply) {
	if a.At < s.cfg.Since || s.cfg.Until != 0 && a.At > s.cfg.Until || len(s.replies) >= maxReplies {
		return
	}
	a.ID = ident(a.ID)
	a.Model, _ = cut(clean(line(a.Model)), maxName)
	s.replies = append(s.replies, a)
}

// maxOpen bounds how many tools may be open at a time.
const maxOpen = 1000

// maxCalls bounds the remembered tool calls.
const maxCalls = 50_000

func (s *sink) batch() {
	s.out, s.index = nil, map[string]int{}
}

func (s *sink) take() []Item {
	out := slices.DeleteFunc(s.out, func(it Item) bool { return it.ID == "" })
	s.batch()
	began := map[string]int64{}
	for _, it := range out {
		began[it.ID] = it.At
	}
	at := func(it Item) int64 { return max(it.At, began[it.Parent]) } // nothing of a call sorts before it
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Compare(at(a), at(b)) })
	return out
}

// fallback returns an ID for a record that has none.
func (s *sink) fallback(what string) string {
	return ident(fmt.Sprintf("%s-%s%s-%d", what, s.record, s.file, s.off))
}

// now sets the time of what follows; 0 leaves it unchanged.
func (s *sink) now(ms int64) {
	if ms > 0 {
		s.at = ms
	}
}

// hidden reports whether the current entry belongs to another session.
func (s *sink) hidden() bool {
	return s.at < s.cfg.Since || s.cfg.Until != 0 && s.at > s.cfg.Until
}

// put adds an item, or a newer state of one.
func (s *sink) put(it Item) {
	if it.At == 0 {
		it.At = s.at
	}
	if it.Parent == "" {
		it.Parent = s.parent
	}
	if s.hidden() || it.At < s.cfg.Since {
		return
	}
	it.ID = ident(it.ID)
	if it.Parent != "" {
		it.Parent = ident(it.Parent)
	}
	s.tidy(&it)
	if i, ok := s.index[it.ID]; ok {
		if it.Kind != Spent {
			s.out[i] = it
			return
		}
		s.out[i].ID = "" // a turn's usage belongs at its end: move it
	}
	s.index[it.ID] = len(s.out)
	s.out = append(s.out, it)
}

// tidy cleans, masks and cuts every field.
func (s *sink) tidy(it *Item) {
	field := func(v *string, n int) {
		if *v == "" {
			return
		}
		var was bool
		*v, was = cut(*v, 2*n) // so that cleaning costs no more than necessary
		*v = clean(*v)
		if s.cfg.Mask != nil {
			*v = s.cfg.Mask(*v)
		}
		short, now := cut(*v, n)
		*v = short
		it.Cut = it.Cut || was || now
	}
	field(&it.Text, maxText)
	field(&it.Input, maxInput)
	field(&it.Output, maxOutput)
	field(&it.Diff, maxDiff)
	whole := it.Cut
	it.Title, it.Path, it.Tool = line(it.Title), line(it.Path), line(it.Tool)
	field(&it.Title, maxTitle)
	field(&it.Path, maxPath)
	field(&it.Tool, maxName)
	it.Cut = whole
	if it.Usage != nil && it.Usage.Model != "" {
		u := *it.Usage
		u.Model, _ = cut(clean(line(u.Model)), maxName)
		it.Usage = &u
	}
}

// begin adds a tool call that has no result yet.
func (s *sink) begin(it Item) {
	it.Status = Running
	if it.At == 0 {
		it.At = s.at
	}
	if it.Parent == "" {
		it.Parent = s.parent
	}
	if len(s.open) >= maxOpen {
		for id := range s.open {
			delete(s.open, id)
			break
		}
	}
	if len(s.calls) >= maxCalls {
		clear(s.calls)
	}
	s.calls[it.ID] = true
	kept := it
	s.open[it.ID] = &kept
	s.put(it)
}

// finish gives a tool call its result; fill changes the item. It returns false when the call is not open.
func (s *sink) finish(id, status string, fill func(*Item)) bool {
	it := s.open[id]
	if it == nil {
		return false
	}
	delete(s.open, id)
	it.Status = status
	if s.at > it.At {
		it.Duration = s.at - it.At
	}
	if fill != nil {
		fill(it)
	}
	s.put(*it)
	return true
}

// close ends every open call of the current record: the main record also ends those of sub-agents.
func (s *sink) close(status string) {
	ids := make([]string, 0, len(s.open))
	for id, it := range s.open {
		if s.parent == "" || it.Parent == s.parent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		s.finish(id, status, func(it *Item) { it.Duration = 0 })
	}
}

// says records the state of the turn. Sub-agents do not affect it.
func (s *sink) says(p Phase, words string) {
	if s.file != "" || s.hidden() {
		return
	}
	words = strings.TrimSpace(clean(line(words)))
	if s.cfg.Mask != nil {
		words = s.cfg.Mask(words)
	}
	words, _ = cut(words, 200)
	s.moment = Moment{Phase: p, Words: words, At: s.at}
}

// word returns what is a string; "" for anything else, such as an error with more to say.
func word(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// stopped adds, to the error that ended the turn, the limit that caused it.
func (s *sink) stopped(l *usagelimit.Limit) {
	if s.file == "" && !s.hidden() {
		s.moment.Limit = l
	}
}
