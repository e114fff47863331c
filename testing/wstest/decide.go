package wstest

import (
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/conflict"
)

func (h *Env) Open(w workspaces.Workspace) map[string]conflict.OpenConflict {
	h.T.Helper()
	got, err := h.S.Conflicts.OpenConflicts(h.T.Context(), w.ID, true)
	Must(h.T, err)
	out := make(map[string]conflict.OpenConflict)
	for _, c := range got.Files {
		out[c.Path] = c
	}
	return out
}

func (h *Env) Decide(w workspaces.Workspace, name, take string) string {
	h.T.Helper()
	snap, err := h.S.Conflicts.Decide(h.T.Context(), h.Actor, w.ID, conflict.Decisions{List: []conflict.Decision{{Path: name, Version: h.Open(w)[name].Version, Take: take}}})
	if err != nil {
		h.T.Fatalf("taking %s of %s: %v", take, name, err)
	}
	return snap
}
