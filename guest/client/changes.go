package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/parawork/parawork/guest"
)

// Watch is a stream of differences from a base. Close it in any case.
type Watch struct {
	base   string
	body   io.ReadCloser
	cancel context.CancelFunc
}

// Watch follows the differences from the commit base, beginning after version since (0 = everything). It ends with ctx. It
// returns once the guest has looked for the first time.
func (c *Client) Watch(ctx context.Context, base string, since uint64) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.do(ctx, request{method: "GET", path: []string{"changes", "watch"},
		query: url.Values{"base": {base}, "since": {strconv.FormatUint(since, 10)}}})
	if err != nil {
		cancel()
		return nil, err
	}
	return &Watch{base: base, body: resp.Body, cancel: cancel}, nil
}

// Next waits for the next set. Any error ends the watch: open another with the last version seen.
func (w *Watch) Next() (guest.ChangeSet, error) {
	b, err := guest.ReadRecord(w.body)
	if err != nil {
		return guest.ChangeSet{}, unreachable(fmt.Errorf("reading changes: %w", err))
	}
	var set guest.ChangeSet
	if err := json.Unmarshal(b, &set); err != nil {
		return guest.ChangeSet{}, wrong("changes", err)
	}
	return set, cleanSet(&set, w.base)
}

func cleanSet(set *guest.ChangeSet, base string) error {
	set.Error = plain(set.Error)
	if err := checkSet(*set, base); err != nil {
		*set = guest.ChangeSet{}
		return wrong("changes", err)
	}
	return nil
}

// Close ends the watch. A Next under way fails.
func (w *Watch) Close() error {
	w.cancel()
	return w.body.Close()
}

// PollNow makes the guest look at once and returns the whole set.
func (c *Client) PollNow(ctx context.Context, base string) (guest.ChangeSet, error) {
	var set guest.ChangeSet
	err := c.ask(ctx, request{method: "POST", path: []string{"changes", "poll"}, query: url.Values{"base": {base}}}, &set)
	if err != nil {
		return guest.ChangeSet{}, err
	}
	return set, cleanSet(&set, base)
}

// Dirty makes the guest look at once and returns the names of what may differ from base. fault.Unsupported: only PollNow can
// answer.
func (c *Client) Dirty(ctx context.Context, base string) (guest.Dirty, error) {
	var d guest.Dirty
	err := c.ask(ctx, request{method: "POST", path: []string{"changes", "dirty"}, query: url.Values{"base": {base}}}, &d)
	if err != nil {
		return guest.Dirty{}, err
	}
	if d.Base != base {
		return guest.Dirty{}, wrong("changes", errors.New("they are about another base"))
	}
	for _, p := range d.Paths {
		if err := guest.CheckPath(p); err != nil {
			return guest.Dirty{}, wrong("changes", err)
		}
	}
	return d, nil
}

// Diff opens the unified diff of one path. The caller closes it and bounds what it reads.
func (c *Client) Diff(ctx context.Context, req guest.DiffRequest) (io.ReadCloser, error) {
	resp, err := c.do(ctx, request{method: "POST", path: []string{"changes", "diff"}, json: req})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
