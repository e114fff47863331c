package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// changeAnswer is what a change did. Diff is for the record of edits, which replays it.
type changeAnswer struct {
	Path      string `json:"path"`
	Created   bool   `json:"created"`
	Changed   bool   `json:"changed"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Size      int64  `json:"size"`
	Hash      string `json:"hash"`
	Diff      string `json:"diff"`
	Cut       bool   `json:"diff_cut"` // the end of Diff is missing
}

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type editArgs struct {
	Path string `json:"path"`
	replacement
}

type multiArgs struct {
	Path  string        `json:"path"`
	Edits []replacement `json:"edits"`
}

// write writes a whole file.
func (s *Service) write(ctx context.Context, c tools.Caller, a writeArgs) (tools.Result, error) {
	k, err := s.begin(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	defer k.done()
	p, unlock, err := k.toChange(ctx, a.Path)
	if err != nil {
		return tools.Result{}, err
	}
	defer unlock()
	known, ok := s.seen.get(k.key(), p)
	if ok {
		out, err := k.change(ctx, p, func(was content) (string, error) {
			if known.masked {
				return "", fault.Wrap(secretfiles.ErrSecretValue, fault.Conflict, "secret_value", "%s contains a secret's value, which was masked when you read it and would be lost. Change parts of the file with file_edit.", shown(p))
			}
			return a.Content, nil
		})
		if !fault.Is(err, fault.NotFound) {
			return out, err
		}
		s.seen.forget(k.key(), p) // it was deleted
	}
	info, err := k.place.Guest.WriteFile(ctx, p, strings.NewReader(a.Content), client.WriteOptions{New: true})
	if fault.CodeOf(err) == "file_exists" {
		return tools.Result{}, notRead(p)
	}
	if err != nil {
		return tools.Result{}, err
	}
	return k.changed(p, info, content{}, a.Content)
}

// edit replaces texts in a file, all or none.
func (s *Service) edit(ctx context.Context, c tools.Caller, given string, edits []replacement, field func(i int) string) (tools.Result, error) {
	k, err := s.begin(ctx, c)
	if err != nil {
		return tools.Result{}, err
	}
	defer k.done()
	p, unlock, err := k.toChange(ctx, given)
	if err != nil {
		return tools.Result{}, err
	}
	defer unlock()
	return k.change(ctx, p, func(was content) (string, error) {
		text := was.text
		for i, e := range edits {
			if was.crlf {
				e.Old, e.New = strings.ReplaceAll(e.Old, "\r\n", "\n"), strings.ReplaceAll(e.New, "\r\n", "\n")
			}
			if text, err = e.in(text, p, field(i)); err != nil {
				return "", err
			}
		}
		return text, nil
	})
}

func notRead(p string) error {
	return fault.New(fault.Conflict, "file_not_read", "%s exists, and you have not read it in this session. Read it with file_read first.", shown(p))
}

func changedSince(p string) error {
	return fault.New(fault.Conflict, "file_changed_since_read", "%s has changed since you read it. Nothing was written. Read it again with file_read, and repeat the change on what is there now.", shown(p))
}

func tooLarge(p string) error {
	return fault.New(fault.TooLarge, "file_too_large", "%s is, or would become, larger than %d MiB, which is the most that these tools change. Use a command.", shown(p), maxEdit>>20)
}

// content is a text file apart from how it is written.
type content struct {
	raw  []byte
	text string // without the mark, and with LF where crlf is set
	bom  bool   // it begins with a byte order mark
	crlf bool   // all its lines end with CRLF
}

func contentOf(raw []byte) content {
	c := content{raw: raw}
	body, marked := bytes.CutPrefix(raw, []byte(bom))
	c.text, c.bom = string(body), marked
	if n := strings.Count(c.text, "\n"); n > 0 && strings.Count(c.text, "\r\n") == n {
		c.text, c.crlf = strings.ReplaceAll(c.text, "\r\n", "\n"), true
	}
	return c
}

// with writes another text in the same way.
func (c content) with(text string) string {
	text = strings.TrimPrefix(text, bom)
	if c.crlf {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	if c.bom {
		text = bom + text
	}
	return text
}

// change changes a file that the caller has read, as it was then. to returns the new text. The error's kind is NotFound when there is no
// file.
func (k *work) change(ctx context.Context, p string, to func(was content) (string, error)) (tools.Result, error) {
	known, ok := k.s.seen.get(k.key(), p)
	r, info, err := k.place.Guest.ReadFileUpTo(ctx, p, maxEdit)
	if fault.CodeOf(err) == "file_too_large" {
		return tools.Result{}, tooLarge(p)
	}
	if err != nil {
		return tools.Result{}, err
	}
	defer r.Close()
	switch err := k.open(p, info.Hash); {
	case err != nil:
		return tools.Result{}, err
	case !ok:
		return tools.Result{}, notRead(p)
	case info.Hash != known.hash:
		return tools.Result{}, changedSince(p)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return tools.Result{}, err
	}
	was := contentOf(raw)
	text, err := to(was)
	if err != nil {
		return tools.Result{}, err
	}
	if text == was.text {
		text = string(raw)
	} else {
		text = was.with(text)
	}
	if text == string(raw) {
		return tools.Answer(fmt.Sprintf("%s has this content already. Nothing was written.", shown(p)), changeAnswer{Path: p, Size: info.Size, Hash: info.Hash})
	}
	if k.c.SessionID == "" && k.s.cfg.Keep != nil {
		if err := k.s.cfg.Keep(ctx, k.c.WorkspaceID, p, k.c.UserID); err != nil {
			return tools.Result{}, err
		}
	}
	made, err := k.place.Guest.WriteFile(ctx, p, strings.NewReader(text), client.WriteOptions{IfMatch: info.Hash})
	if fault.Is(err, fault.Precondition) {
		return tools.Result{}, changedSince(p)
	}
	if err != nil {
		return tools.Result{}, err
	}
	return k.changed(p, made, was, text)
}

// changed remembers a file as the caller wrote it, and answers with what changed.
func (k *work) changed(p string, info guest.FileInfo, was content, text string) (tools.Result, error) {
	known, _ := k.s.seen.get(k.key(), p)
	k.s.seen.put(k.key(), p, sight{hash: info.Hash, masked: known.masked})
	a := changeAnswer{Path: p, Created: was.raw == nil, Changed: true, Size: info.Size, Hash: info.Hash}
	diff := ""
	if bytes.IndexByte(was.raw, 0) < 0 && strings.IndexByte(text, 0) < 0 {
		diff, a.Additions, a.Deletions = unified(was.raw, []byte(text))
	}
	diff = k.hide(strings.ToValidUTF8(diff, "\uFFFD"))
	return tools.Fit(k.c.Limits.ResultBytes, func(share int) (tools.Result, error) {
		a.Diff, a.Cut = cutLines(diff, maxDiff*share/64)
		verb := "Changed"
		if a.Created {
			verb = "Created"
		}
		words := fmt.Sprintf("%s %s: %d lines added, %d removed.", verb, shown(p), a.Additions, a.Deletions)
		if !a.Created {
			short, cut := cutLines(a.Diff, maxShown)
			words += "\n" + strings.TrimSuffix(short, "\n")
			if cut || a.Cut {
				words += "\n[The rest of the diff is left out.]"
			}
		}
		return tools.Answer(words, a)
	})
}
