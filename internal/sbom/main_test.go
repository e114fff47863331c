package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A lock file's packages for use are in the document with their hashes and licences, those for building are not; the modules are those the
// program says; twice the same build gives the same bytes.
func TestWhatABuildIsMadeOf(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(dir, "package-lock.json")
	if err := os.WriteFile(lock, []byte(`{"lockfileVersion":3,"packages":{"":{"name":"ui"},
		"node_modules/react":{"version":"19.1.0","integrity":"sha512-AAEC","license":"MIT"},
		"node_modules/a/node_modules/@scope/b":{"version":"2.0.0","license":"MIT OR Apache-2.0"},
		"node_modules/vite":{"version":"7.0.0","dev":true,"license":"MIT"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, name := range []string{"one", "two"} {
		out := filepath.Join(dir, name)
		if err := run(out, lock, "v1", []string{self}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	if texts[0] != texts[1] {
		t.Error("two documents of one build differ")
	}
	var doc document
	if err := json.Unmarshal([]byte(texts[0]), &doc); err != nil {
		t.Fatal(err)
	}
	by := map[string]component{}
	for _, c := range doc.Parts {
		by[c.Purl] = c
	}
	if c := by["pkg:npm/react@19.1.0"]; len(c.Hashes) != 1 || c.Hashes[0] != (hash{"SHA-512", "000102"}) || len(c.Licenses) != 1 || c.Licenses[0].Expression != "MIT" {
		t.Errorf("react: %+v", c)
	}
	if _, ok := by["pkg:npm/%40scope/b@2.0.0"]; !ok || by["pkg:npm/vite@7.0.0"].Name != "" {
		t.Errorf("packages: %+v", by)
	}
	std := false
	for purl := range by {
		std = std || strings.HasPrefix(purl, "pkg:golang/std@")
	}
	if !std || doc.Format != "CycloneDX" || !strings.HasPrefix(doc.Serial, "urn:uuid:") || doc.Metadata.Component.Version != "v1" {
		t.Errorf("%+v", doc)
	}
	if err := run(filepath.Join(dir, "three"), "", "v1", []string{lock}); err == nil {
		t.Error("a file that is no program has modules")
	}
}
