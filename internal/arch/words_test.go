package arch_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// homemade are words this project once had for what the field has a name for. The value is the term to use. Words stand alone, and a
// phrase with choices ends in the one word that all of its choices end in.
var homemade = map[string]string{
	`house|houses`:                         "app, harness, instance",
	`nothome|afar|astray`:                  "remote, unsynced, unreachable",
	`unheard|unheardof`:                    "unreachable",
	`intake|intakes`:                       "quarantine",
	`parcel|parcels`:                       "transfer bundle",
	`chill|chills|chilled`:                 "suspend",
	`thaw|thaws|thawed`:                    "resume, unfreeze",
	`doze|dozes|rouse|rouses`:              "suspend when idle, wake",
	`typer|posed`:                          "input stream, pending question",
	`sieve|sieves|veil|veils`:              "redactor, privacy cache",
	`heed|heeds|heeded`:                    "recheck, respect",
	`worries|reckon|reckons`:               "recheck queue, reconcile",
	`deafen|deafens`:                       "unsubscribe",
	`killpoint|killpoints`:                 "failpoint",
	`warden|wardens`:                       "suspension enforcer",
	`remainer|ender|teller`:                "RemnantKeeper, Destroyer, ProgressFunc",
	`witness|witnesses`:                    "source of the end time",
	`desk|desks`:                           "scratch repository, console",
	`loan|loans`:                           "alternates",
	`keepcarry|keepignored`:                "ignored_transfer, ignored_snapshot",
	`mend|mends|mended`:                    "fix, repair",
	`untold|refurnish|doorbook`:            "standard English",
	`(is|are|was|were|be|been|being) told`: "notify, report: say who tells whom",
	`gone home|(comes?|came|brought|brings?|bring|is|are|was) home`: "synced, copied to the server",
	`st(and|ands|ood|anding) still`:                                 "suspended, paused, stopped",
	`asks for nobody`:                                               "needs nobody",
	`ends nothing unseen`:                                           "deletes nothing before it is saved",
	`led to where it was`:                                           "moved to the position of the sandbox",
}

// spared are files whose words are not ours, or that name old words on purpose.
var spared = []string{"internal/arch/words_test.go", "CHANGELOG.md", "accounts/password/commonwords.txt", "package-lock.json", "go.sum",
	"internal/cgroup/kill.go", "internal/cgroup/cgroup_test.go"} // the kernel's own words

// Where a word begins inside a name: camelCase, and ALongName.
var (
	camel   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	capital = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// Names, comments, texts and pages use the field's own words, which a reader knows already.
func TestNoHomemadeWords(t *testing.T) {
	t.Parallel()
	tracked := exec.Command("git", "ls-files", "-z")
	tracked.Dir = root
	out, err := tracked.Output()
	if err != nil {
		t.Skipf("NOT TESTED: the tracked files cannot be listed (%v)", err)
	}
	words, pieces := regexp.MustCompile(`(?i)(^|[^\pL\d])(`+strings.Join(slices.Collect(maps.Keys(homemade)), "|")+`)($|[^\pL])`), pieces()
	for name := range strings.SplitSeq(string(out), "\x00") {
		if !text(name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil { // removed in the work tree
			continue
		}
		whole := name + "\n" + string(content)
		in := containing(whole, pieces)
		for n, line := range strings.Split(whole, "\n") {
			if len(containing(line, in)) == 0 {
				continue
			}
			split := capital.ReplaceAllString(camel.ReplaceAllString(strings.ReplaceAll(line, "_", " "), "$1 $2"), "$1 $2")
			if found := words.FindStringSubmatch(split); found != nil {
				t.Errorf("%s:%d: %q: write %s", name, n, found[2], instead(found[2]))
			}
		}
	}
}

// pieces are what text with homemade words contains in any case: looking for them is a hundred times cheaper than matching all words.
func pieces() (out []string) {
	for words := range homemade {
		if phrase := strings.Fields(words); len(phrase) > 1 {
			out = append(out, phrase[len(phrase)-1])
		} else {
			out = append(out, strings.Split(words, "|")...)
		}
	}
	return out
}

// containing returns which of the pieces a text contains, in whatever case.
func containing(text string, pieces []string) (out []string) {
	text = strings.ToLower(text)
	for _, p := range pieces {
		if strings.Contains(text, p) {
			out = append(out, p)
		}
	}
	return out
}

// text reports whether a tracked file holds words of ours.
func text(name string) bool {
	for _, s := range spared {
		if strings.HasSuffix(name, s) {
			return false
		}
	}
	switch filepath.Ext(name) {
	case ".go", ".ts", ".tsx", ".mjs", ".md", ".sql", ".yaml", ".yml", ".sh", ".json", ".css", ".html", "":
		return name != "" && !strings.Contains(name, "testdata/")
	}
	return false
}

// instead is the term to use for a word.
func instead(word string) string {
	for words, term := range homemade {
		if regexp.MustCompile(`(?i)^(` + words + `)$`).MatchString(word) {
			return term
		}
	}
	return "the field's own word"
}
