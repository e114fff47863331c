package lsp

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Bounds of documents.
const (
	maxDocument = 2 << 20 // bytes of one
	maxOpen     = 64      // at once in one server; the one used longest ago is closed
	maxEvents   = 5000    // changed files that one notification to a server names
)

// documents are the files that are open in a server, and what it knows of the others. The files on the disk are the truth: nobody has
// a document that differs from its file.
type documents struct {
	turn  locks.Turn // guards the rest, and that versions reach the server in order
	open  map[string]*document
	clock uint64
	known map[string]string // what differs from the base, with its hash, as the server last heard; nil = nothing yet

	ever    map[string]bool // files that were in known at some time
	saved   Record          // of the last save
	version int             // of each document before its first
	left    []string        // documents that the earlier run had open
}

type document struct {
	version int
	hash    string
	stamp   string // of the change that was read; "" = equal to the base
	used    uint64
	before  int // number of the last report about it before its text was sent
}

// text is a file as it was sent to a server.
type text struct {
	path    string
	version int
	hash    string
	body    string
	fresh   bool // the server just got it, or other files
	before  int  // number of the last report about it before that, or before its text was sent
}

// stampOf identifies the contents of a changed file.
func stampOf(c guest.Change) string { return cmp.Or(c.Hash, c.Stamp, c.Status) }

// refresh tells the server what changed on the disk since the last refresh, and opens file. changes are all files that differ from the base.
func (sv *server) refresh(ctx context.Context, changes []guest.Change, file string) (text, error) {
	unlock, err := sv.docs.turn.Lock(ctx)
	if err != nil {
		return text{}, err
	}
	defer unlock()
	now := make(map[string]string, len(changes))
	for _, c := range changes {
		now[c.Path] = stampOf(c)
		for _, name := range []string{c.Path, c.OldPath} {
			if name != "" && sv.lang.Watches(name) && len(sv.docs.ever) <= maxEvents {
				sv.docs.ever[name] = true
			}
		}
	}
	if err := sv.save(ctx, file); err != nil {
		return text{}, err
	}
	told, err := sv.tellChanges(now, changes)
	if err != nil {
		return text{}, err
	}
	for name, doc := range sv.docs.open {
		if name == file || doc.stamp == now[name] {
			continue
		}
		if _, err := sv.send(ctx, name, now[name]); err != nil {
			if ctx.Err() != nil {
				return text{}, err
			}
			sv.closeDocument(name) // it was deleted, or is no text any more
		}
		told = true
	}
	if file == "" {
		return text{}, nil
	}
	t, err := sv.send(ctx, file, now[file])
	if told && !t.fresh {
		t.fresh, t.before = true, sv.lastReport(file)
	}
	return t, err
}

// tellChanges tells the server which files changed on the disk, and reports whether any did.
func (sv *server) tellChanges(now map[string]string, changes []guest.Change) (told bool, err error) {
	const created, changed, deleted = 1, 2, 3
	before := sv.docs.known
	sv.docs.known = now
	if before == nil { // it read the disk when it started
		return false, nil
	}
	type event struct {
		URI  string `json:"uri"`
		Type int    `json:"type"`
	}
	var events []event
	add := func(file string, kind int) {
		if sv.lang.Watches(file) && len(events) < maxEvents {
			events = append(events, event{sv.uri(file), kind})
		}
	}
	for _, c := range changes {
		old, was := before[c.Path]
		switch {
		case was && old == now[c.Path]:
			continue
		case c.Status == "deleted":
			add(c.Path, deleted)
		case !was && (c.Status == "added" || c.Status == "untracked"):
			add(c.Path, created)
		default:
			add(c.Path, changed)
		}
		if c.OldPath != "" {
			add(c.OldPath, deleted)
		}
	}
	for file, stamp := range before {
		if _, still := now[file]; still {
			continue
		}
		switch stamp { // it is as in the base again, or a new file is gone
		case "deleted":
			add(file, created)
		default:
			add(file, changed)
		}
	}
	if len(events) == 0 {
		return false, nil
	}
	return true, sv.conn.Notify("workspace/didChangeWatchedFiles", map[string]any{"changes": events})
}

// send opens a document, or sends its new text. Called with the turn held.
func (sv *server) send(ctx context.Context, file, stamp string) (text, error) {
	body, hash, err := sv.read(ctx, file)
	if err != nil {
		return text{}, err
	}
	t := text{path: file, hash: hash, body: body}
	last := sv.lastReport(file)
	sv.docs.clock++
	doc := sv.docs.open[file]
	switch {
	case doc == nil:
		sv.evict()
		doc = &document{version: sv.docs.version + 1, before: last}
		sv.docs.open[file] = doc
		t.fresh = true
		err = sv.conn.Notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": sv.uri(file), "languageId": sv.lang.DocumentID(file), "version": doc.version, "text": body}})
	case doc.hash != hash:
		doc.version++
		doc.before, t.fresh = last, true
		id := map[string]any{"uri": sv.uri(file), "version": doc.version}
		err = sv.conn.Notify("textDocument/didChange", map[string]any{"textDocument": id, "contentChanges": []map[string]string{{"text": body}}})
		if err == nil {
			err = sv.conn.Notify("textDocument/didSave", map[string]any{"textDocument": map[string]string{"uri": sv.uri(file)}})
		}
	}
	doc.hash, doc.stamp, doc.used = hash, stamp, sv.docs.clock
	t.version, t.before = doc.version, doc.before
	return t, err
}

// lastReport returns the number of the last report about a file; 0 = there is none.
func (sv *server) lastReport(file string) int {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if r := sv.reports[file]; r != nil {
		return r.seq
	}
	return 0
}

// evict closes the document used longest ago when there are too many.
func (sv *server) evict() {
	if len(sv.docs.open) < maxOpen {
		return
	}
	oldest := ""
	for name, doc := range sv.docs.open {
		if oldest == "" || doc.used < sv.docs.open[oldest].used {
			oldest = name
		}
	}
	sv.closeDocument(oldest)
}

func (sv *server) closeDocument(file string) {
	delete(sv.docs.open, file)
	_ = sv.conn.Notify("textDocument/didClose", map[string]any{"textDocument": map[string]string{"uri": sv.uri(file)}}) // an ended server has closed it
	sv.mu.Lock()
	sv.forget(file)
	sv.mu.Unlock()
}

// read reads a text file of the worktree as it is in the sandbox.
func (sv *server) read(ctx context.Context, file string) (body, hash string, err error) {
	r, info, err := sv.place.Guest.ReadFile(ctx, file)
	if err != nil {
		return "", "", err
	}
	defer r.Close()
	if info.Size > maxDocument {
		return "", "", fault.New(fault.TooLarge, "document_too_large", "%s has %d bytes; language servers are given files of at most %d.", file, info.Size, maxDocument)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return "", "", err
	}
	if !utf8.Valid(b) {
		return "", "", fault.New(fault.Invalid, "document_not_text", "%s is not a text in UTF-8.", file)
	}
	return string(b), info.Hash, nil
}

// lines of a text, each without its end.
func lines(body string) []string {
	list := strings.Split(body, "\n")
	for i := range list {
		list[i] = strings.TrimSuffix(list[i], "\r")
	}
	return list
}

// units counts the UTF-16 units of a text.
func units(s string) (n uint32) {
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// offsets returns where in a text positions are; one past the end of its line is that end. It reads the text once.
func offsets(body string, positions []protocol.Position) map[protocol.Position]int {
	slices.SortFunc(positions, func(a, b protocol.Position) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Character, b.Character))
	})
	out := make(map[protocol.Position]int, len(positions))
	at := 0
	var now protocol.Position
	for _, p := range positions {
		for now.Line < p.Line {
			i := strings.IndexByte(body[at:], '\n')
			if i < 0 {
				at = len(body)
				break
			}
			at += i + 1
			now = protocol.Position{Line: now.Line + 1}
		}
		for at < len(body) && now.Character < p.Character && body[at] != '\n' {
			r, size := utf8.DecodeRuneInString(body[at:])
			at += size
			now.Character++
			if r > 0xFFFF {
				now.Character++
			}
		}
		out[p] = at
	}
	return out
}

// edited applies edits to a text. They must not overlap.
func edited(body string, edits []protocol.TextEdit) (string, error) {
	type cut struct {
		from, to int
		text     string
	}
	positions := make([]protocol.Position, 0, 2*len(edits))
	for _, e := range edits {
		positions = append(positions, e.Range.Start, e.Range.End)
	}
	offset := offsets(body, positions)
	cuts := make([]cut, len(edits))
	for i, e := range edits {
		cuts[i] = cut{offset[e.Range.Start], offset[e.Range.End], e.NewText}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := 0
	for _, c := range cuts {
		if c.from < at || c.to < c.from {
			return "", fault.New(fault.Unavailable, "language_server_wrong", "The language server answered with edits that overlap, so nothing was changed.")
		}
		b.WriteString(body[at:c.from])
		b.WriteString(c.text)
		if at = c.to; b.Len() > 2*maxDocument {
			return "", fault.New(fault.TooLarge, "document_too_large", "The language server's edits make a file larger than %d bytes, so nothing was changed.", 2*maxDocument)
		}
	}
	b.WriteString(body[at:])
	return b.String(), nil
}
