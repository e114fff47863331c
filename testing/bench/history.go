package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/term"
)

// needle stands once in what child-agent prints, in the middle.
const needle = "onlyneedle"

// childAgent prints about N bytes that look like an agent at work: words of a vocabulary with colours between them, numbers and
// hashes, lines drawn over. The same text without colours goes to a file, for grep.
func childAgent(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	file, err := os.Create(args[1])
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := term.MakeRaw(0); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 4000)
	for i := range words {
		w := make([]byte, 3+rng.IntN(9))
		for k := range w {
			w[k] = "etaoinshrdlucmfwypvbgk"[rng.IntN(22)]
		}
		words[i] = string(w)
	}
	out, text := bufio.NewWriterSize(os.Stdout, 64<<10), bufio.NewWriterSize(file, 64<<10)
	reported := false
	for sent := int64(0); sent < n; {
		if !reported && sent > n/2 {
			reported = true
			k, _ := fmt.Fprintf(out, "here is the \x1b[31monly\x1b[1mneedle\x1b[0m of it\r\n")
			fmt.Fprintf(text, "here is the %s of it\n", needle)
			sent += int64(k)
		}
		line := 0
		for range 6 + rng.IntN(8) {
			w := words[min(rng.IntN(len(words)), rng.IntN(len(words)))] // some much more often than others
			if rng.IntN(12) == 0 {
				w = strconv.FormatUint(rng.Uint64()>>20, 16)
			}
			k := 0
			if rng.IntN(5) == 0 {
				k, _ = fmt.Fprintf(out, "\x1b[38;5;%dm%s\x1b[39m ", rng.IntN(256), w)
			} else {
				k, _ = fmt.Fprintf(out, "%s ", w)
			}
			fmt.Fprintf(text, "%s ", w)
			line += k
		}
		k, _ := out.WriteString("\r\n")
		_ = text.WriteByte('\n')
		sent += int64(line + k)
	}
	return errors.Join(out.Flush(), text.Flush())
}

// history measures the stored history of a session: its compressed size, and a search over it compared with grep over the same
// text in one plain file.
func (b *bench) history() error {
	h, err := b.harness()
	if err != nil {
		return err
	}
	n := int64(b.size(1_000_000_000, 64_000_000))
	plain := filepath.Join(b.dir, "plain.txt")
	before := cpuOf([]int{h.cmd.Process.Pid})
	var s struct {
		ID    string
		Bytes int64
	}
	if err := h.do("POST", "/workspaces/"+h.workspace+"/sessions", map[string]any{"agent": "command",
		"argv": []string{b.self, "child-agent", strconv.FormatInt(n, 10), plain}}, &s); err != nil {
		return err
	}
	folder := filepath.Join(h.data, "sessions", s.ID)
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var now struct{ State string }
		if err := h.do("GET", "/sessions/"+s.ID, nil, &now); err != nil {
			return err
		}
		left, _ := filepath.Glob(filepath.Join(folder, "*.seg"))
		if now.State == "exited" && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the output was not packed within 10 minutes")
		}
	}
	cpu := cpuOf([]int{h.cmd.Process.Pid}) - before
	var st struct{ Bytes, Printed int64 }
	if err := h.do("GET", "/workspaces/"+h.workspace+"/storage", nil, &st); err != nil {
		return err
	}
	gb := float64(st.Printed) / 1e9
	ratio := float64(st.Printed) / float64(st.Bytes)
	b.figure("packed, with its search files (smaller by)", fmt.Sprintf("%.0f MB", float64(st.Bytes)/1e6), fmt.Sprintf("%.0f MB", gb*1000), ratio, ">= 2.5", ratio >= 2.5)
	fmt.Printf("  server's processor time for streaming, packing and indexing: %.1f s per GB\n", cpu.Seconds()/gb)

	search := func(q string) (float64, error) {
		var all []float64
		for range 5 {
			began := time.Now()
			var found struct{ Items []struct{ Line string } }
			if err := h.do("GET", "/workspaces/"+h.workspace+"/search?"+q, nil, &found); err != nil {
				return 0, err
			}
			all = append(all, time.Since(began).Seconds()*1000)
		}
		return median(all), nil
	}
	grep := func(args ...string) (float64, error) {
		var all []float64
		for range 5 {
			cmd := exec.Command("grep", append(args, plain)...)
			cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
			began := time.Now()
			err := cmd.Run()
			all = append(all, time.Since(began).Seconds()*1000)
			if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() > 1) {
				return 0, err
			}
		}
		return median(all), nil
	}
	for _, c := range []struct{ name, q, regex string }{
		{"search: a word that stands once", "q=" + needle, needle},
		{"search: a word that stands nowhere", "q=nowheretobefound", "nowheretobefound"},
		{"search: a regular expression", "regex=true&q=" + url.QueryEscape("only[a-z]+dle of"), "only[a-z]+dle of"},
	} {
		ours, err := search(c.q)
		if err != nil {
			return err
		}
		base, err := grep("-ciE", c.regex)
		if err != nil {
			return err
		}
		limit := 1000 * max(gb, 0.1)
		b.figure(c.name, f1(ours)+" ms", f1(base)+" ms", ours/base, "< 1, < 1 s", ours < base && ours < limit)
	}
	var moments []float64
	for i := range 5 {
		at := st.Printed / 6 * int64(i+1)
		began := time.Now()
		req, err := http.NewRequest("GET", fmt.Sprintf("%s/api/v1/sessions/%s/moment?at=%d", h.url, s.ID, at), nil)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+h.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("moment: %s, %w", resp.Status, err)
		}
		moments = append(moments, time.Since(began).Seconds()*1000)
	}
	slices.Sort(moments)
	fmt.Printf("  the screen at a moment of %.1f GB: median %.0f ms\n", gb, median(moments))
	return nil
}
