package agent

import (
	"encoding/json"
	"slices"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/tools"
)

// Details are what people and the record of edits need of a call's result, beside what the model reads.
type Details struct {
	Path     string `json:"path,omitempty"` // of a file that was changed, relative to the worktree
	Diff     string `json:"diff,omitempty"` // what was changed in it: unified, without names
	Added    int    `json:"added,omitempty"`
	Removed  int    `json:"removed,omitempty"`
	Hash     string `json:"hash,omitempty"`     // of its content afterwards
	DiffCut  bool   `json:"diff_cut,omitempty"` // the end of Diff is missing
	Run      string `json:"run,omitempty"`      // the run of code
	Command  string `json:"command,omitempty"`  // the command in the sandbox
	Artifact string `json:"artifact,omitempty"` // the artifact that it saved
}

// editTools change one file, and answer with the diff.
var editTools = []string{"file_write", "file_edit", "file_multi_edit"}

// wholeTools are asked for more than the model is sent: the diff of an edit is recorded, and what the others print would be lost. The rest
// say themselves how to read on.
var wholeTools = append([]string{"run_command", "run_code", "verify", "web_fetch"}, editTools...)

// mostWhole bounds such a result, and with it what can be read on, bytes.
const mostWhole = 2 << 20

// callerOf is for whom a tool is called, with the bounds of its result.
func (r *running) callerOf(tool string) tools.Caller {
	c := r.caller
	c.Limits.ResultBytes = r.svc.cfg.Limits.ResultBytes
	if slices.Contains(wholeTools, tool) {
		c.Limits.ResultBytes = max(c.Limits.ResultBytes, mostWhole)
	}
	c.Limits.ImageBytes = tools.MaxResultBytes
	return c
}

// detailsOf reads them from a result.
func (r *running) detailsOf(tool string, result tools.Result) Details {
	var got struct {
		Path      string `json:"path"`
		Changed   bool   `json:"changed"`
		Additions int    `json:"additions"`
		Deletions int    `json:"deletions"`
		Hash      string `json:"hash"`
		Diff      string `json:"diff"`
		DiffCut   bool   `json:"diff_cut"`
		ID        string `json:"id"`
		Command   string `json:"command_id"`
		Artifact  string `json:"artifact_id"`
	}
	if json.Unmarshal(result.Structured, &got) != nil {
		return Details{}
	}
	d := Details{Command: got.Command, Artifact: got.Artifact}
	switch {
	case slices.Contains(editTools, tool) && got.Changed:
		d.Path, d.Diff, d.DiffCut, d.Added, d.Removed, d.Hash = guest.DecodePath(got.Path), r.mask(got.Diff), got.DiffCut, got.Additions, got.Deletions, got.Hash
	case tool == "run_code":
		d.Run = got.ID
	}
	return d
}
