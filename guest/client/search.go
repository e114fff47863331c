package client

import (
	"context"
	"errors"
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

func checkSearch(a guest.SearchAnswer) error {
	switch {
	case len(a.Items) > guest.MaxFound || a.Files < len(a.Items) || a.Matches < 0 || a.Skipped < 0:
		return errors.New("a number is out of bounds")
	case a.Partial != "" && a.Partial != guest.SearchTime && a.Partial != guest.SearchFiles:
		return errors.New("it is not complete for an unknown reason")
	}
	for i := range a.Items {
		one := &a.Items[i]
		if err := guest.CheckPath(one.Path); err != nil {
			return err
		}
		if one.Size < 0 || one.Matches < 0 {
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
	}
	return nil
}
