package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/guest"
)

// Search finds files below the root, or lines in them.
func (c *Client) Search(ctx context.Context, req guest.SearchRequest) (guest.SearchAnswer, error) {
	var a guest.SearchAnswer
	if err := c.ask(ctx, request{method: "POST", path: []string{"search"}, json: req}, &a); err != nil {
		return guest.SearchAnswer{}, err
	}
	if err := checkSearch(a); err != nil {
		return guest.SearchAnswer{}, wrong("a search", err)
	}
	return a, nil
}

// SearchStream is Search, with each file as soon as the guest found it, in no order. An error of fn ends it. The answer has the totals.
func (c *Client) SearchStream(ctx context.Context, req guest.SearchRequest, fn func(guest.Found) error) (guest.SearchAnswer, error) {
	resp, err := c.do(ctx, request{method: "POST", path: []string{"search"}, query: url.Values{"stream": {"1"}}, json: req})
	if err != nil {
		return guest.SearchAnswer{}, err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "application/json" { // an older guest answers at once, within narrower bounds
		return searchedAtOnce(resp.Body, fn)
	}
	files, size := 0, 0
	for {
		b, err := guest.ReadRecord(resp.Body)
		if err != nil {
			return guest.SearchAnswer{}, unreachable(fmt.Errorf("reading what a search found: %w", cmp.Or(context.Cause(ctx), err)))
		}
		var p guest.SearchPiece
		if err := json.Unmarshal(b, &p); err != nil {
			return guest.SearchAnswer{}, wrong("a search", err)
		}
		if p.End != nil {
			if len(p.End.Items) > 0 || p.End.Files < files || p.End.Matches < 0 || p.End.Skipped < 0 || !slices.Contains(partials, p.End.Partial) {
				return guest.SearchAnswer{}, wrong("a search", errors.New("its end is none"))
			}
			return *p.End, nil
		}
		files += len(p.Items)
		size += len(b)
		if len(p.Items) == 0 || files > guest.MaxListed || size > maxStreamed {
			return guest.SearchAnswer{}, wrong("a search", errors.New("more than there may be"))
		}
		for i := range p.Items {
			if err := checkFound(&p.Items[i]); err != nil {
				return guest.SearchAnswer{}, wrong("a search", err)
			}
			if err := fn(p.Items[i]); err != nil {
				return guest.SearchAnswer{}, err
			}
		}
	}
}

func searchedAtOnce(body io.Reader, fn func(guest.Found) error) (guest.SearchAnswer, error) {
	var a guest.SearchAnswer
	if err := decode(body, &a); err != nil {
		return guest.SearchAnswer{}, err
	}
	if err := checkSearch(a); err != nil {
		return guest.SearchAnswer{}, wrong("a search", err)
	}
	for _, one := range a.Items {
		if err := fn(one); err != nil {
			return guest.SearchAnswer{}, err
		}
	}
	if a.Items = nil; a.Partial == "" && a.Files >= guest.MaxFound {
		a.Partial = guest.SearchLimit
	}
	return a, nil
}

// maxStreamed bounds all records of a stream, in bytes.
const maxStreamed = 64 << 20

var partials = []string{"", guest.SearchTime, guest.SearchFiles, guest.SearchLimit}

func checkSearch(a guest.SearchAnswer) error {
	switch {
	case len(a.Items) > guest.MaxFound || a.Files < len(a.Items) || a.Matches < 0 || a.Skipped < 0:
		return errors.New("a number is out of bounds")
	case a.Partial != "" && a.Partial != guest.SearchTime && a.Partial != guest.SearchFiles:
		return errors.New("it is not complete for an unknown reason")
	}
	for i := range a.Items {
		if err := checkFound(&a.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkFound(one *guest.Found) error {
	if err := guest.CheckPath(one.Path); err != nil {
		return err
	}
	if one.Size < 0 || one.Matches < 0 || len(one.Lines) > guest.MaxFound*(2*guest.MaxContext+1) {
		return errors.New("a number of a file is out of bounds")
	}
	last := 0
	for j := range one.Lines {
		l := &one.Lines[j]
		if l.Number <= last || l.At < 0 || l.At > len(l.Text) || len(l.Text) > 3*guest.MaxFoundLine || strings.ContainsRune(l.Text, '\n') || !utf8.ValidString(l.Text) {
			return errors.New("a line is none")
		}
		last = l.Number
	}
	return nil
}
