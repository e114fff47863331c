package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/fault"
)

var errNoChanges = fault.New(fault.Unsupported, "changes_unsupported", "This sandbox does not follow changes.")

// serveWatch sends a record for each set of changes, until the host hangs up.
func (d *Daemon) serveWatch(w http.ResponseWriter, r *http.Request) error {
	if d.cfg.Changes == nil {
		return errNoChanges
	}
	since, err := number(r, "since")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() { // ends with the answer
		select {
		case <-d.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	begun := false
	rc := http.NewResponseController(w)
	err = d.cfg.Changes.Watch(ctx, r.URL.Query().Get("base"), uint64(since), func(set guest.ChangeSet) error {
		if !begun {
			begun = true
			if err := offer.Begin(w); err != nil {
				return err
			}
		}
		b, err := json.Marshal(set)
		if err != nil {
			return err
		}
		if _, err := w.Write(guest.AppendRecord(nil, b)); err != nil {
			return err
		}
		return rc.Flush()
	})
	if begun {
		return errCut // a watch does not end on its own
	}
	if err == nil || ctx.Err() != nil {
		return errCut
	}
	return err
}

func (d *Daemon) servePoll(w http.ResponseWriter, r *http.Request) error {
	if d.cfg.Changes == nil {
		return errNoChanges
	}
	set, err := d.cfg.Changes.PollNow(r.Context(), r.URL.Query().Get("base"))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, set)
	return nil
}

func (d *Daemon) serveDirty(w http.ResponseWriter, r *http.Request) error {
	if d.cfg.Changes == nil {
		return errNoChanges
	}
	dirty, err := d.cfg.Changes.Dirty(r.Context(), r.URL.Query().Get("base"))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, dirty)
	return nil
}

// serveDiff sends a diff as it is made. An error before the first byte is sent as an error; one after that cuts the answer off.
func (d *Daemon) serveDiff(w http.ResponseWriter, r *http.Request) error {
	if d.cfg.Changes == nil {
		return errNoChanges
	}
	var req guest.DiffRequest
	if err := body(w, r, &req); err != nil {
		return err
	}
	out := &counted{w: w}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := d.cfg.Changes.Diff(r.Context(), req, out); err != nil {
		if out.n > 0 || errors.Is(err, context.Canceled) {
			return errCut
		}
		return err
	}
	return nil
}

// counted counts the bytes written through it.
type counted struct {
	w http.ResponseWriter
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
