// Command sbom writes the components of a build of Parawork as a CycloneDX document: the Go modules linked into its programs, as the
// programs themselves say, and the packages of the embedded web app, as its lock file says. It uses no network and is reproducible.
//
//	sbom [-lock ui/package-lock.json] [-version V] -o FILE PROGRAM...
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// document is the part of a CycloneDX 1.6 document that is used here.
type document struct {
	Format   string      `json:"bomFormat"`
	Spec     string      `json:"specVersion"`
	Serial   string      `json:"serialNumber"`
	Version  int         `json:"version"`
	Metadata metadata    `json:"metadata"`
	Parts    []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string    `json:"type"`
	Ref      string    `json:"bom-ref"`
	Name     string    `json:"name"`
	Version  string    `json:"version,omitempty"`
	Purl     string    `json:"purl,omitempty"`
	Hashes   []hash    `json:"hashes,omitempty"`
	Licenses []license `json:"licenses,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"` // hexadecimal
}

type license struct {
	Expression string `json:"expression"` // SPDX
}

func main() {
	lock := flag.String("lock", "", "package-lock.json of the web app")
	version := flag.String("version", "dev", "of Parawork")
	out := flag.String("o", "", "where the document goes")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*out, *lock, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out, lock, version string, programs []string) error {
	parts := map[string]component{}
	for _, p := range programs {
		if err := addModules(parts, p); err != nil {
			return err
		}
	}
	if lock != "" {
		if err := addPackages(parts, lock); err != nil {
			return err
		}
	}
	doc := document{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{component{Type: "application", Ref: "parawork", Name: "parawork", Version: version}}}
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		doc.Parts = append(doc.Parts, parts[ref])
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body) // of what it says: the same build has the same number
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	doc.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	if body, err = json.MarshalIndent(doc, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(out, append(body, '\n'), 0o644)
}

// addModules adds the modules a program was linked from, and Go's own library.
func addModules(parts map[string]component, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading what %s is made of: %w", program, err)
	}
	std := strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")
	add(parts, component{Name: "std", Version: std, Purl: "pkg:golang/std@" + std, Licenses: []license{{"BSD-3-Clause"}}})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Name: m.Path, Version: m.Version, Purl: "pkg:golang/" + m.Path + "@" + m.Version}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		add(parts, c)
	}
	return nil
}

// addPackages adds the packages that a lock file installs for use, not those used only for building.
func addPackages(parts map[string]component, lock string) error {
	raw, err := os.ReadFile(lock)
	if err != nil {
		return err
	}
	var file struct {
		Version  int `json:"lockfileVersion"`
		Packages map[string]struct {
			Version, Integrity, License string
			Dev, Link                   bool
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return fmt.Errorf("reading %s: %w", lock, err)
	}
	if file.Version < 2 {
		return fmt.Errorf("%s is of version %d: npm writes 3 since its version 7", lock, file.Version)
	}
	for where, p := range file.Packages {
		i := strings.LastIndex(where, "node_modules/")
		if i < 0 || p.Dev || p.Link {
			continue
		}
		name := where[i+len("node_modules/"):]
		c := component{Name: name, Version: p.Version, Purl: "pkg:npm/" + strings.ReplaceAll(name, "@", "%40") + "@" + p.Version}
		if alg, sum, ok := strings.Cut(p.Integrity, "-"); ok && alg == "sha512" {
			if b, err := base64.StdEncoding.DecodeString(sum); err == nil {
				c.Hashes = []hash{{"SHA-512", hex.EncodeToString(b)}}
			}
		}
		if p.License != "" {
			c.Licenses = []license{{p.License}}
		}
		add(parts, c)
	}
	return nil
}

func add(parts map[string]component, c component) {
	c.Type, c.Ref = "library", c.Purl
	parts[c.Ref] = c
}
