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

// Pieces of a parcel are sent several at a time: one stream moves no more than its window in each round trip.
const (
	parcelStreams = 16
	parcelPiece   = 256 << 10
	parcelTries   = 8 // in a row in which not one byte arrived
	parcelWait    = 250 * time.Millisecond
	parcelWaitMax = 5 * time.Second
)

// Parcel asks how far a parcel has come.
func (c *Client) Parcel(ctx context.Context, id string) (guest.Parcel, error) {
	var p guest.Parcel
	if err := c.ask(ctx, request{method: "GET", path: []string{"parcels", url.PathEscape(id)}}, &p); err != nil {
		return guest.Parcel{}, err
	}
	return p, checkParcel(&p, id)
}

func checkParcel(p *guest.Parcel, id string) error {
	switch p.State {
	case guest.ParcelComing, guest.ParcelUnpacking, guest.ParcelDone, guest.ParcelFailed:
	default:
		return wrong("a parcel", errors.New("it is in no state there is"))
	}
	if p.ID != id || p.Have < 0 || p.Have > guest.MaxParcel || p.Done < 0 || p.All < 0 || len(p.Step) > 50 {
		return wrong("a parcel", errors.New("a figure is out of bounds"))
	}
	p.Step = plain(p.Step)
	return nil
}

// SendParcel sends size bytes of r as a parcel, from where an earlier sending ended, and over as many pipes as it takes. tell is called
// with how many bytes are there, by one goroutine at a time; optional. It gives up when nothing has arrived for a while.
func (c *Client) SendParcel(ctx context.Context, id string, r io.ReaderAt, size int64, tell func(done int64)) error {
	if tell == nil {
		tell = func(int64) {}
	}
	wait, best := parcelWait, int64(-1)
	for tries := 0; ; tries++ {
		p, err := c.Parcel(ctx, id)
		if err == nil {
			if p.State != guest.ParcelComing {
				return nil // it was complete before
			}
			if p.Have > best {
				tries, wait, best = 0, parcelWait, p.Have
			}
			tell(min(p.Have, size))
			if p.Have >= size {
				return nil
			}
			var have int64
			if have, err = c.pieces(ctx, id, r, p.Have, size, tell); err == nil {
				if have >= size {
					return nil // as the guest answered to the last piece
				}
				continue
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fault.KindOf(err) != fault.Unavailable || fault.CodeOf(err) == "guest_closed" || tries >= parcelTries {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, parcelWaitMax)
	}
}

// pieces sends what lies between two offsets, and returns up to where the guest has it then.
func (c *Client) pieces(ctx context.Context, id string, r io.ReaderAt, from, to int64, tell func(int64)) (have int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := from
	have = from
	var wg sync.WaitGroup
	for range min(parcelStreams, (to-from+parcelPiece-1)/parcelPiece) {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				off := next
				n := min(parcelPiece, to-off)
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
					tell(min(have, to))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return have, context.Cause(ctx)
}

// piece sends one.
func (c *Client) piece(ctx context.Context, id string, r io.ReaderAt, off, n int64) (guest.Parcel, error) {
	q := request{method: http.MethodPut, path: []string{"parcels", url.PathEscape(id)}, query: url.Values{"offset": {strconv.FormatInt(off, 10)}},
		body: io.NewSectionReader(r, off, n)}
	var p guest.Parcel
	if err := c.ask(ctx, q, &p); err != nil {
		return guest.Parcel{}, err
	}
	return p, checkParcel(&p, id)
}

// Unpack has a parcel that was sent be unpacked and tells how far that is until it has ended, also over a cut of the pipe. An error of
// the unpacking is returned as the guest tells it.
func (c *Client) Unpack(ctx context.Context, id string, r guest.UnpackRequest, tell func(guest.Parcel)) error {
	wait := parcelWait
	for tries := 0; ; tries++ {
		p, heard, err := c.unpack(ctx, id, r, tell)
		switch {
		case err == nil && p.State == guest.ParcelDone:
			return nil
		case err == nil && p.State == guest.ParcelFailed:
			return parcelError(p.Error)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			err = unreachable(errors.New("the guest stopped telling of the parcel"))
		}
		if heard {
			tries, wait = 0, parcelWait
		}
		if fault.KindOf(err) != fault.Unavailable || fault.CodeOf(err) == "guest_closed" || tries >= parcelTries {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, parcelWaitMax)
	}
}

// parcelError is why a parcel could not be unpacked.
func parcelError(e *guest.ErrorBody) error {
	if e == nil {
		return fault.New(fault.Unavailable, "parcel_failed", "The sandbox could not unpack what was sent.")
	}
	kind, code := fault.Unavailable, "parcel_failed"
	if e.Kind == string(fault.DiskFull) {
		kind, code = fault.DiskFull, "disk_full"
	}
	return fault.New(kind, code, "%s", plain(clip(e.Message, 2000)))
}

// unpack listens to one unpacking until it has ended or the pipe is cut. heard says whether anything was told.
func (c *Client) unpack(ctx context.Context, id string, r guest.UnpackRequest, tell func(guest.Parcel)) (p guest.Parcel, heard bool, err error) {
	resp, err := c.do(ctx, request{method: "POST", path: []string{"parcels", url.PathEscape(id), "unpack"}, json: r})
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
			return p, heard, unreachable(fmt.Errorf("unpacking a parcel: %w", err))
		}
		var next guest.Parcel
		if err := json.Unmarshal(b, &next); err != nil {
			return p, heard, wrong("a parcel", err)
		}
		if err := checkParcel(&next, id); err != nil {
			return p, heard, err
		}
		p, heard = next, true
		if tell != nil {
			tell(p)
		}
	}
}
