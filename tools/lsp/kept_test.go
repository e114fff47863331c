package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/tools/lsp/protocol"
)

// What a server pushes, and what callers got, is kept within bounds.
func TestKeptDiagnosticsAreBounded(t *testing.T) {
	sv := &server{root: "/w", reports: map[string]*report{}, changed: make(chan struct{})}
	long := strings.Repeat("x", 10_000)
	items := make([]protocol.Diagnostic, 2*maxDiagnostics)
	for i := range items {
		items[i] = protocol.Diagnostic{Message: fmt.Sprint(i, long), Source: long, Code: json.RawMessage(`"` + long + `"`), Data: json.RawMessage(`"` + long + `"`)}
	}
	for i := range 100 {
		sv.published(protocol.PublishDiagnostics{URI: fmt.Sprintf("file:///w/%d.go", i%50), Diagnostics: items})
	}
	last := sv.reports["49.go"]
	if last == nil || len(last.items) != maxDiagnostics || cap(last.items) >= len(items) || last.seq != 100 {
		t.Fatalf("the last report: %+v", last)
	}
	if d := last.items[0]; len(d.Message) != maxMessageText || len(d.Source) != maxSourceText || d.Code != nil || d.Data != nil {
		t.Errorf("%d, %d, %s, %s", len(d.Message), len(d.Source), d.Code, d.Data)
	}
	sum := 0
	for _, r := range sv.reports {
		sum += r.bytes
	}
	if sum != sv.reported || sum > maxReported || len(sv.reports) < 10 {
		t.Errorf("%d reports with %d bytes, counted %d", len(sv.reports), sum, sv.reported)
	}
}

func TestWhatCallersGotIsBounded(t *testing.T) {
	var got told
	for i := range 2 * maxCallers {
		got.mark(fmt.Sprint("caller ", i), []File{{Path: "a.go", Items: []Diagnostic{{Message: "m"}}}}, nil)
	}
	if len(got.callers) != maxCallers {
		t.Errorf("%d callers", len(got.callers))
	}
	var files []File
	for i := range 100 {
		f := File{Path: fmt.Sprint(i, ".go")}
		for j := range 200 {
			f.Items = append(f.Items, Diagnostic{Message: fmt.Sprint(j)})
		}
		files = append(files, f)
	}
	for range 3 {
		got.mark("caller", files, nil)
	}
	c := got.callers["caller"]
	if c.known != maxIdentities || len(c.files) != maxIdentities/200 {
		t.Errorf("%d diagnostics of %d files", c.known, len(c.files))
	}
	if files[0].Items[0].New || !files[99].Items[0].New {
		t.Error("the first file's diagnostics are known, and the last file's were not kept")
	}
}

// A client that takes no answers is ended before they fill the memory.
func TestWhatWaitsForAClientIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &sharer{out: make(chan []byte, clientQueued), end: cancel}
	large, err := json.Marshal(strings.Repeat("x", protocol.MaxMessage/2))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.reply(json.RawMessage("1"), large, nil)
	}
	if ctx.Err() != nil {
		t.Error("a client that is a little late was ended")
	}
	for range 3 {
		c.reply(json.RawMessage("1"), large, nil)
	}
	if ctx.Err() == nil || c.queued > clientBytes {
		t.Errorf("%d bytes wait, and the client is still served", c.queued)
	}
}
