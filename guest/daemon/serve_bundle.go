package daemon

import (
	"encoding/json"
	"net/http"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
)

func (d *Daemon) serveBundle(w http.ResponseWriter, r *http.Request) error {
	p, err := d.bundles.Status(r.PathValue("id"))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, p)
	return nil
}

// serveBundlePiece takes one piece of a bundle. The received part of an interrupted piece is stored.
func (d *Daemon) serveBundlePiece(w http.ResponseWriter, r *http.Request) error {
	off, err := number(r, "offset")
	if err != nil {
		return err
	}
	p, err := d.bundles.Write(r.PathValue("id"), off, r.Body)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, p)
	return nil
}

// serveUnpack unpacks a complete bundle, and sends a record for each step. It continues when the host hangs up.
func (d *Daemon) serveUnpack(w http.ResponseWriter, r *http.Request) error {
	var req guest.UnpackRequest
	if err := body(w, r, &req); err != nil {
		return err
	}
	begun := false
	rc := http.NewResponseController(w)
	err := d.bundles.Unpack(r.Context(), r.PathValue("id"), req, func(p guest.Bundle) error {
		if !begun {
			begun = true
			if err := offer.Begin(w); err != nil {
				return err
			}
		}
		b, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if _, err := w.Write(guest.AppendRecord(nil, b)); err != nil {
			return err
		}
		return rc.Flush()
	})
	if err != nil && begun {
		return errCut
	}
	return err
}
