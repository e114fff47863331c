package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Several pieces of a bundle are sent at a time: one stream moves no more than its window in each round trip.
const (
	bundleStreams = 16
	bundlePiece   = 256 << 10
	bundleTries   = 8 // in a row without a byte of progress
	bundleWait    = 250 * time.Millisecond
	bundleWaitMax = 5 * time.Second
)

// Bundle returns the progress of a bundle.
func (c *Client) Bundle(ctx context.Context, id string) (guest.Bundle, error) {
	var p guest.Bundle
	if err := c.ask(ctx, request{method: "GET", path: []string{"bundles", url.PathEscape(id)}}, &p); err != nil {
		return guest.Bundle{}, err
	}
	return p, checkBundle(&p, id)
}

func checkBundle(p *guest.Bundle, id string) error {
	switch p.State {
	case guest.BundleComing, guest.BundleUnpacking, guest.BundleDone, guest.BundleFailed:
	default:
		return wrong("a bundle", errors.New("its state is unknown"))
	}
	if p.ID != id || p.Have < 0 || p.Have > guest.MaxBundle || p.Done < 0 || p.All < 0 || len(p.Step) > 50 {
		return wrong("a bundle", errors.New("a number is out of bounds"))
	}
	p.Step = plain(p.Step)
	return nil
}

// SendBundle sends size bytes of r as a bundle, from where an earlier transfer ended, and over as many pipes as it takes. notify,
// which is optional, is called with the number of received bytes, by one goroutine at a time. SendBundle gives up after a while
// without progress.
func (c *Client) SendBundle(ctx context.Context, id string, r io.ReaderAt, size int64, notify func(done int64)) error {
	if notify == nil {
		notify = func(int64) {}
	}
	wait, best := bundleWait, int64(-1)
	for tries := 0; ; tries++ {
		p, err := c.Bundle(ctx, id)
		if err == nil {
			if p.State != guest.BundleComing {
				return nil // it was already complete
			}
			if p.Have > best {
				tries, wait, best = 0, bundleWait, p.Have
			}
			notify(min(p.Have, size))
			if p.Have >= size {
				return nil
			}
			var have int64
			if have, err = c.pieces(ctx, id, r, p.Have, size, notify); err == nil {
				if have >= size {
					return nil // from the guest's answer to the last piece
				}
				continue
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fault.KindOf(err) != fault.Unavailable || fault.CodeOf(err) == "guest_closed" || tries >= bundleTries {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, bundleWaitMax)
	}
}

// pieces sends the bytes between two offsets, and returns up to where the guest has them afterwards.
func (c *Client) pieces(ctx context.Context, id string, r io.ReaderAt, from, to int64, notify func(int64)) (have int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := from
	have = from
	var wg sync.WaitGroup
	for range min(bundleStreams, (to-from+bundlePiece-1)/bundlePiece) {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				off := next
				n := min(bundlePiece, to-off)
				next += n
				mu.Unlock()
				if n <= 0 {
					return
				}
				p, err := c.piece(ctx, id, r, off, n)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				if p.Have > have {
					have = p.Have
					notify(min(have, to))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return have, context.Cause(ctx)
}

// piece sends one.
func (c *Client) piece(ctx context.Context, id string, r io.ReaderAt, off, n int64) (guest.Bundle, error) {
	q := request{method: http.MethodPut, path: []string{"bundles", url.PathEscape(id)}, query: url.Values{"offset": {strconv.FormatInt(off, 10)}},
		body: io.NewSectionReader(r, off, n)}
	var p guest.Bundle
	if err := c.ask(ctx, q, &p); err != nil {
		return guest.Bundle{}, err
	}
	return p, checkBundle(&p, id)
}

// Unpack has a sent bundle unpacked and reports the progress until it has ended, even across a cut of the pipe. It returns the
// guest's error if the unpacking fails.
func (c *Client) Unpack(ctx context.Context, id string, r guest.UnpackRequest, notify func(guest.Bundle)) error {
	wait := bundleWait
	for tries := 0; ; tries++ {
		p, heard, err := c.unpack(ctx, id, r, notify)
		switch {
		case err == nil && p.State == guest.BundleDone:
			return nil
		case err == nil && p.State == guest.BundleFailed:
			return bundleError(p.Error)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			err = unreachable(errors.New("the guest stopped reporting on the bundle"))
		}
		if heard {
			tries, wait = 0, bundleWait
		}
		if fault.KindOf(err) != fault.Unavailable || fault.CodeOf(err) == "guest_closed" || tries >= bundleTries {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, bundleWaitMax)
	}
}

// bundleError is the error of a failed unpacking.
func bundleError(e *guest.ErrorBody) error {
	if e == nil {
		return fault.New(fault.Unavailable, "bundle_failed", "The sandbox could not unpack what was sent.")
	}
	kind, code := fault.Unavailable, "bundle_failed"
	if e.Kind == string(fault.DiskFull) {
		kind, code = fault.DiskFull, "disk_full"
	}
	return fault.New(kind, code, "%s", plain(clip(e.Message, 2000)))
}

// unpack follows one unpacking until it has ended or the pipe is cut. heard reports whether any progress was reported.
func (c *Client) unpack(ctx context.Context, id string, r guest.UnpackRequest, notify func(guest.Bundle)) (p guest.Bundle, heard bool, err error) {
	resp, err := c.do(ctx, request{method: "POST", path: []string{"bundles", url.PathEscape(id), "unpack"}, json: r})
	if err != nil {
		return p, false, err
	}
	defer resp.Body.Close()
	for {
		b, err := guest.ReadRecord(resp.Body)
		if errors.Is(err, io.EOF) {
			return p, heard, nil
		}
		if err != nil {
			return p, heard, unreachable(fmt.Errorf("unpacking a bundle: %w", err))
		}
		var next guest.Bundle
		if err := json.Unmarshal(b, &next); err != nil {
			return p, heard, wrong("a bundle", err)
		}
		if err := checkBundle(&next, id); err != nil {
			return p, heard, err
		}
		p, heard = next, true
		if notify != nil {
			notify(p)
		}
	}
}
