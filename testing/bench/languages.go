package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/testing/testlsp"
)

// languages measures how long after an edit it is known what is wrong in the file: by the API, with the files that changed, the guest and the
// sandbox between, beside gopls on a pipe that gets the same edit. Both alternate between a mistake and none.
func (b *bench) languages() error {
	if dir, err := filepath.Abs(".cache/language-servers/bin"); err == nil {
		before := os.Getenv("PATH")
		defer func() { _ = os.Setenv("PATH", before) }()
		if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+before); err != nil {
			return err
		}
	}
	gopls, err := exec.LookPath("gopls")
	if err != nil {
		fmt.Println("  not measured, gopls is not installed: run testing/scripts/test-setup.sh")
		return nil
	}
	h, err := b.ownHarness("languages")
	if err != nil {
		return err
	}
	defer h.stop()
	defer func() { _ = h.do("POST", "/workspaces/"+h.workspace+"/destroy-sandbox", nil, nil) }() // its guest outlives the server
	w, err := h.openWorkspace(h.project, "edited")
	if err != nil {
		return err
	}
	defer func() { _ = h.do("POST", "/workspaces/"+w.id+"/destroy-sandbox", nil, nil) }()
	alone := filepath.Join(b.dir, "gopls")
	for _, dir := range []string{w.path, alone} {
		if err := testlsp.Project(dir); err != nil {
			return err
		}
	}
	bare, err := testlsp.Start(gopls, alone, "edited.go")
	if err != nil {
		return err
	}
	defer bare.Stop()
	var base, took []float64
	for i := range b.size(60, 10) + 5 { // the first ones fill caches
		text, wrong := testlsp.Edit(i)
		t0 := time.Now()
		found, err := bare.Problems(text)
		if err != nil || (found > 0) != wrong {
			return fmt.Errorf("gopls finds %d problems, a mistake: %v: %w", found, wrong, err)
		}
		t1 := time.Now()
		if err := os.WriteFile(filepath.Join(w.path, "edited.go"), []byte(text), 0o600); err != nil {
			return err
		}
		var out struct {
			Ready  bool
			Reason string
			Items  []json.RawMessage
		}
		if err := h.do("GET", "/workspaces/"+w.id+"/diagnostics?path=edited.go", nil, &out); err != nil {
			return err
		}
		if !out.Ready || (len(out.Items) > 0) != wrong {
			return fmt.Errorf("the API finds %d problems, a mistake: %v, %s", len(out.Items), wrong, out.Reason)
		}
		if i >= 5 {
			base, took = append(base, ms(t1.Sub(t0))), append(took, ms(time.Since(t1)))
		}
	}
	m, own := median(took), median(base)
	b.figure("diagnostics after an edit, API, p50, ms", f1(m), f1(own), m/own, "<= 2", m <= 2*own)
	return nil
}
