package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/parawork/parawork/guest"
)

// Contents is the answer to a request for contents. Close it in any case.
type Contents struct {
	body  io.ReadCloser
	items []guest.ContentItem
	next  int   // the least index that may come
	left  int64 // unread bytes of the last content
	sum   int64
}

// Contents requests the contents of files.
func (c *Client) Contents(ctx context.Context, req guest.ContentsRequest) (*Contents, error) {
	resp, err := c.do(ctx, request{method: "POST", path: []string{"contents"}, json: req})
	if err != nil {
		return nil, err
	}
	return &Contents{body: resp.Body, items: req.Items}, nil
}

// Next returns the next item's record and its bytes, which are skipped unless read before the next call. It returns io.EOF at the
// end: the missing items were not begun.
func (x *Contents) Next() (guest.Content, io.Reader, error) {
	if x.left > 0 {
		if _, err := io.CopyN(io.Discard, x.body, x.left); err != nil {
			return guest.Content{}, nil, unreachable(fmt.Errorf("reading contents: %w", err))
		}
		x.left = 0
	}
	head, err := guest.ReadRecord(x.body)
	if errors.Is(err, io.EOF) {
		return guest.Content{}, nil, io.EOF
	}
	if err != nil {
		return guest.Content{}, nil, unreachable(fmt.Errorf("reading contents: %w", err))
	}
	var c guest.Content
	if err := json.Unmarshal(head, &c); err != nil {
		return guest.Content{}, nil, wrong("contents", err)
	}
	if err := x.check(c); err != nil {
		return guest.Content{}, nil, wrong("contents", err)
	}
	x.next, x.left = c.Index+1, c.Length
	return c, &part{x}, nil
}

func (x *Contents) check(c guest.Content) error {
	if x.sum += c.Length; c.Index < x.next || c.Index >= len(x.items) || c.Length < 0 || x.sum > guest.MaxContentsBytes+guest.MaxContentPiece {
		return errors.New("an index or a length is out of bounds")
	}
	if c.Size < 0 || c.Size > 1<<53 || c.Perm > 0o777 || len(c.ID) > 64 || c.Hash != "" && !isHash(c.Hash) {
		return errors.New("a field is out of bounds")
	}
	it, mode := x.items[c.Index], c.Mode == "100644" || c.Mode == "100755"
	ok := false
	switch c.State {
	case guest.ContentWhole:
		ok = mode && c.Length == c.Size && c.Length <= guest.MaxContentPiece && c.Hash != ""
	case guest.ContentPiece:
		ok = mode && c.ID != "" && c.Offset == it.Offset && c.Length == min(c.Size-c.Offset, guest.MaxContentPiece)
	case guest.ContentLink:
		ok = c.Mode == "120000" && c.Length == c.Size && c.Length <= guest.MaxPath && c.Hash != ""
	case guest.ContentSame:
		ok = c.Length == 0 && it.Have != "" && c.Hash == it.Have && (mode || c.Mode == "120000")
	case guest.ContentMoved, guest.ContentGone, guest.ContentOther:
		ok = c.Length == 0
	}
	if !ok {
		return fmt.Errorf("state %q does not match its fields", clip(c.State, 20))
	}
	return nil
}

// Close ends the answer.
func (x *Contents) Close() error { return x.body.Close() }

// part reads the bytes of one content.
type part struct{ x *Contents }

func (p *part) Read(b []byte) (int, error) {
	if p.x.left == 0 {
		return 0, io.EOF
	}
	n, err := p.x.body.Read(b[:min(int64(len(b)), p.x.left)])
	p.x.left -= int64(n)
	if err != nil && p.x.left > 0 {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, unreachable(fmt.Errorf("reading contents: %w", err))
	}
	return n, nil
}

// Walk lists what is below folders of the agents' home.
func (c *Client) Walk(ctx context.Context, req guest.WalkRequest) (guest.WalkAnswer, error) {
	var a guest.WalkAnswer
	if err := c.ask(ctx, request{method: "POST", path: []string{"walk"}, json: req}, &a); err != nil {
		return guest.WalkAnswer{}, err
	}
	if len(a.Items) > guest.MaxWalk {
		return guest.WalkAnswer{}, wrong("a walk", errors.New("more entries than there may be"))
	}
	for _, i := range a.Items {
		if err := checkFile(i); err != nil || i.Path == "" {
			return guest.WalkAnswer{}, wrong("a walk", errors.Join(err, errors.New("an entry is none")))
		}
	}
	return a, nil
}

// FillHome sends files into the agents' home: fn returns one after the other, and ends with io.EOF. The reader of a file yields
// as many bytes as its Length says.
func (c *Client) FillHome(ctx context.Context, fn func() (guest.Packed, io.Reader, error)) error {
	src := &source{r: &packing{fn: fn}}
	err := c.ask(ctx, request{method: "POST", path: []string{"home"}, body: src}, nil)
	if failed := src.failed.Load(); err != nil && failed != nil {
		return *failed
	}
	return err
}

// packing encodes files as the guest reads them.
type packing struct {
	fn   func() (guest.Packed, io.Reader, error)
	head bytes.Reader
	body io.Reader
	left int64
}

func (p *packing) Read(b []byte) (int, error) {
	for {
		if p.head.Len() > 0 {
			return p.head.Read(b)
		}
		if p.left > 0 {
			n, err := p.body.Read(b[:min(int64(len(b)), p.left)])
			if p.left -= int64(n); errors.Is(err, io.EOF) {
				if err = nil; p.left > 0 {
					err = io.ErrUnexpectedEOF
				}
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		rec, body, err := p.fn()
		if err != nil {
			return 0, err
		}
		head, err := json.Marshal(rec)
		if err != nil {
			return 0, err
		}
		p.head.Reset(guest.AppendRecord(nil, head))
		p.body, p.left = body, rec.Length
	}
}
