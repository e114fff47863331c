package kubetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// watch tells of changes until its sender leaves or its time is up.
func (s *Server) watch(c *call) error {
	want, err := c.wanted()
	if err != nil {
		return err
	}
	q := c.URL.Query()
	initial := q.Get("sendInitialEvents") == "true"
	if initial && q.Get("resourceVersionMatch") != "NotOlderThan" {
		return c.res.invalid("", []cause{notAllowed("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")})
	}
	limit := 30 * time.Minute
	if n, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil && n > 0 {
		limit = time.Duration(n) * time.Second
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	send := func(kind string, o any) error {
		if err := json.NewEncoder(c.w).Encode(object{"type": kind, "object": o}); err != nil {
			return err
		}
		return http.NewResponseController(c.w).Flush()
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(c.w).Flush()

	s.mu.Lock()
	at, err := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	if err != nil || at == 0 || initial { // from now on, after all that is there
		at = s.rv
		all := s.selected(c, want)
		s.mu.Unlock()
		for _, o := range all {
			if err := send("ADDED", o.obj); err != nil {
				return nil
			}
		}
		if initial && q.Get("allowWatchBookmarks") == "true" {
			if err := send("BOOKMARK", object{"kind": c.res.kind, "apiVersion": c.res.apiVersion(), "metadata": object{
				"resourceVersion": strconv.FormatInt(at, 10), "annotations": object{"k8s.io/initial-events-end": "true"}}}); err != nil {
				return nil
			}
		}
		s.mu.Lock()
	}
	for {
		if at < s.floor {
			st := expired(at, s.floor)
			s.mu.Unlock()
			_ = send("ERROR", st.object())
			return nil
		}
		var due []change
		for i := len(s.history) - 1; i >= 0 && s.history[i].rv > at; i-- {
			due = append(due, s.history[i])
		}
		at = s.rv
		changed := s.changed
		s.mu.Unlock()
		for i := len(due) - 1; i >= 0; i-- {
			d := due[i]
			if d.key.plural != c.res.plural || c.ns != "" && d.key.ns != c.ns {
				continue
			}
			kind := d.kind
			fits, fitted := want.fits(d.obj), d.old != nil && want.fits(d.old)
			switch {
			case kind == "DELETED" && !fitted, kind == "ADDED" && !fits, kind == "MODIFIED" && !fits && !fitted:
				continue
			case kind == "MODIFIED" && !fitted:
				kind = "ADDED"
			case kind == "MODIFIED" && !fits:
				kind = "DELETED"
			}
			if err := send(kind, d.obj); err != nil {
				return nil
			}
		}
		select {
		case <-changed:
		case <-end.C:
			return nil
		case <-c.Context().Done():
			return nil
		case <-s.stop:
			return nil
		}
		s.mu.Lock()
	}
}
