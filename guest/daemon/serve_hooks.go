package daemon

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/fault"
)

var errNoHooks = fault.New(fault.Unsupported, "hooks_unsupported", "This sandbox does not receive hooks of agents.")

// serveHooks sends a record for each hook, until the host hangs up.
func (d *Daemon) serveHooks(w http.ResponseWriter, r *http.Request) error {
	if d.hooks.l == nil {
		return errNoHooks
	}
	since, err := number(r, "since")
	if err != nil {
		return err
	}
	if err := offer.Begin(w); err != nil {
		return err
	}
	rc := http.NewResponseController(w)
	_ = d.hooks.follow(r.Context(), uint64(since), func(raw []byte) error {
		if _, err := w.Write(guest.AppendRecord(nil, raw)); err != nil {
			return err
		}
		return rc.Flush()
	})
	return errCut // it does not end on its own
}

func (d *Daemon) serveAnswerHook(w http.ResponseWriter, r *http.Request) error {
	var a guest.HookAnswer
	if err := body(w, r, &a); err != nil {
		return err
	}
	out := bytes.TrimSpace(a.Output)
	if len(out) > guest.MaxHookAnswer || len(out) > 0 && !json.Valid(out) {
		return fault.New(fault.Invalid, "invalid_hook_answer", "The answer to a hook must be JSON of at most %d bytes.", guest.MaxHookAnswer)
	}
	if err := d.hooks.answerHook(r.Context(), r.PathValue("id"), out); err != nil {
		return err
	}
	return done(w)
}
