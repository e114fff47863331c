package permissions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

func spec(name, group, arguments string) tools.Spec {
	return tools.Spec{Name: name, Group: group, Arguments: json.RawMessage(`{"properties": {` + arguments + `}}`)}
}

var (
	run   = spec("run_command", "commands", `"command": {}, "argv": {}`)
	code  = spec("run_code", "code", `"code": {}`)
	write = spec("file_write", "files", `"path": {}`)
	grep  = spec("grep", "files", `"pattern": {}, "path": {}`)
	fetch = spec("web_fetch", "web", `"url": {}`)
	task  = spec("task_create", "tasks", `"title": {}`)
	specs = []tools.Spec{run, code, write, grep, fetch, task}
)

// rules reads rules as "effect tool: pattern".
func rules(all ...string) (out []permissions.Rule) {
	for i, s := range all {
		head, pattern, _ := strings.Cut(s, ": ")
		effect, tool, _ := strings.Cut(head, " ")
		out = append(out, permissions.Rule{ID: string(rune('a' + i)), Tool: tool, Pattern: pattern, Effect: permissions.Effect(effect)})
	}
	return out
}

func command(line string) permissions.Call {
	args, _ := json.Marshal(map[string]string{"command": line})
	return permissions.NewCall(run, args, nil)
}

// What a rule allows is certain: each of these lines does something else than its pattern says.
func TestLinesThatNoRuleAllowsByAccident(t *testing.T) {
	t.Parallel()
	given := rules("allow run_command: git status *", "allow run_command: go test *", "allow run_command: ls *", "allow run_command: cat *", "allow run_command: git *", "allow run_command: find *", "allow run_command: rg *",
		"allow run_command: tar *", "allow run_command: ./build *")
	for _, line := range []string{
		"", "rm -rf /", "gitx status", "/tmp/git status", "./git status", "GIT status",
		"git status; rm -r x", "git status && rm x", "git status || rm x", "git status | sh", "git status & rm x", "git status\nrm x", "rm x; git status",
		"git status $(rm x)", "git status `rm x`", `git status "$(rm x)"`, "git status <(rm x)", "git status $X", `git status "$X"`, "git status ${X:-$(rm x)}", "git status $((x=1))",
		"git status > ~/.bashrc", "git status >> x", "git status 2> x", "ls < /etc/passwd", "cat <<EOF > x\ny\nEOF", "git status >&x",
		"PATH=/tmp git status", "GIT_PAGER=x git status", "X=1", "env git status", "sudo git status", "sh -c 'git status'", "bash -c 'rm x' git status", "xargs git status", "command git status", "eval git status",
		"exec git status", "nohup git status", "time git status", "timeout 5 git status", "busybox git status",
		"git -c core.pager=x log", "git --exec-path=/tmp status", "git -C /tmp status", "git --git-dir=/tmp/x status", "git difftool -x 'rm x'", "git rebase -x 'rm x' main", "git bisect run rm x", "git submodule foreach rm x",
		"git grep -O'rm x' y", "git grep --open-files-in-pager=x y", "git clone --upload-pack=x y", "git fetch 'ext::sh -c x'",
		"find . -exec rm {} ;", `find . -exec rm {} \;`, "find . -delete", "find . -execdir sh -c x ;", "find . -fprint x", "find . -ok rm ;", "rg --pre x y", "tar --to-command=x -xf y", "tar -I x -xf y",
		"ls *", "ls ~", "ls {a,b}", "ls ?", "ls [a]", "ls $'a'", `ls $"a"`, "if true; then git status; fi", "for x in a; do ls; done", "ls() { rm x; }; ls", "while ls; do ls; done", "case a in a) ls;; esac", "! ls $(x)",
		"alias ls=rm; ls x", ". ./x", "source x", "trap 'rm x' EXIT; ls", "cd / && ls", "cd .. && ls", "cd $X && ls", "cd - && ls", "cd sub && ./build x", "cd sub && git status", "pushd sub; git log", "(cd /; ls)", "git status 'unclosed", "g''it status; rm x", "ls \x00", "coproc ls", "ls & eval x",
		"true", "cd sub",
	} {
		if d := permissions.Decide(given, command(line), true); d.Effect != "" {
			t.Errorf("%q: %s by %s", line, d.Effect, d.Rule)
		}
	}
	for _, args := range []string{`{"argv":["git"," status"]}`, `{"argv":["sh","-c","git status"]}`, `{"argv":["env","git","status"]}`, `{"argv":[]}`, `{"argv":["find",".","-exec","rm","{}",";"]}`, `{"argv":["/bin/git","status"]}`,
		`{"command":"git status","env":{"GIT_DIR":"/tmp"}}`, `{"command":"git status","cwd":"/tmp"}`, `{"command":"git status","cwd":"a/../../b"}`, `{"command":"git status","cwd":"sub"}`, `{"argv":["git","status"],"cwd":"sub"}`, `{"command":1}`, `[]`} {
		d := permissions.Decide(rules("allow run_command: git status *", "allow run_command: find *"), permissions.NewCall(run, json.RawMessage(args), nil), true)
		if d.Effect != "" {
			t.Errorf("%s: %s by %s", args, d.Effect, d.Rule)
		}
	}
}

// A line that is allowed as it stands is another one in another folder, or with variables, and no rule is suggested that would allow more.
func TestTheSameLineElsewhere(t *testing.T) {
	t.Parallel()
	given := rules("allow run_command: make", "allow run_command: ./deploy.sh", "allow run_command: for x in a; do ls $x; done", "allow run_command: ls *")
	for _, args := range []string{`{"command":"make","env":{"PATH":"/tmp/x"}}`, `{"command":"make","env":{"X":"1"}}`, `{"command":"./deploy.sh","cwd":"sub"}`, `{"argv":["./deploy.sh"],"cwd":"sub"}`, `{"command":"for x in a; do ls $x; done","cwd":"sub"}`} {
		c := permissions.NewCall(run, json.RawMessage(args), nil)
		if d := permissions.Decide(given, c, true); d.Effect != "" {
			t.Errorf("%s: %s by %s", args, d.Effect, d.Rule)
		}
		if r, ok := permissions.Suggest(c, true); ok && permissions.Decide([]permissions.Rule{r}, c, true).Effect != permissions.Allow {
			t.Errorf("%s: the suggestion %q does not allow it", args, r)
		}
	}
	if d := permissions.Decide(given, permissions.NewCall(run, json.RawMessage(`{"command":"ls -l","cwd":"sub"}`), nil), true); d.Effect != permissions.Allow {
		t.Errorf("ls in a folder: %q", d.Effect)
	}
	for _, args := range []string{`{"command":"X=1","cwd":"/"}`, `{"command":1}`, `{"command":"make","env":{"X":"1"}}`, `{"argv":[]}`} {
		for _, wide := range []bool{true, false} {
			if r, ok := permissions.Suggest(permissions.NewCall(run, json.RawMessage(args), nil), wide); ok {
				t.Errorf("%s: suggests %q", args, r)
			}
		}
	}
	for _, c := range []permissions.Call{permissions.NewCall(fetch, json.RawMessage(`{"url":"nonsense"}`), nil), permissions.NewCall(write, json.RawMessage(`{"path":"../x"}`), nil)} {
		if r, ok := permissions.Suggest(c, false); ok {
			t.Errorf("suggests %q", r)
		}
	}
}

// What a pattern says is allowed, in whatever way it is written.
func TestLinesThatRulesAllow(t *testing.T) {
	t.Parallel()
	given := rules("allow run_command: git status *", "allow commands: go test *", "allow run_command: make", "allow run_command: npm run build-*", "allow run_command: grep -r * src", "allow run_command: python3 scripts/x.py 'a b'",
		"allow run_command: for x in a b; do ls $x; done", "allow run_command: ./gradlew test")
	for _, line := range []string{"git status", "git status -s .", `g"it" 'status'`, `git st\atus`, "go test ./... -run 'A|B'", "cd sub && go test ./...", "git status && go test ./... 2>&1", "go test ./... > /dev/null 2>&1", "( make )", "make", "! make",
		"npm run build-all", "grep -r 'x y' src", `python3 scripts/x.py "a b"`, "for x in a b; do ls $x; done", "./gradlew test", "git status; git status\ngo test"} {
		if d := permissions.Decide(given, command(line), false); d.Effect != permissions.Allow {
			t.Errorf("%q: %q %s", line, d.Effect, d.Reason)
		}
	}
	for _, line := range []string{"make all", "npm run built", "npm run build-all x", "grep -r x y src", "python3 scripts/x.py 'a b' c", "for x in a b; do ls $x; done; rm x"} {
		if d := permissions.Decide(given, command(line), false); d.Effect != "" {
			t.Errorf("%q: %s by %s", line, d.Effect, d.Rule)
		}
	}
}

// A rule that denies or asks is not got round by the way a line is written.
func TestLinesThatRulesDeny(t *testing.T) {
	t.Parallel()
	given := rules("allow run_command", "deny run_command: git push *", "ask run_command: rm *")
	for _, line := range []string{"git push", "git push origin main", "/usr/bin/git push", "GIT push", "git -C x push", "git --no-pager -c a=b push -f", "ls && git push", "ls; (git push)", "ls | git push", "echo $(git push)", "echo `git push`",
		"env git push", "sudo -u x git push", "sh -c 'git push'", `bash -lc "ls; git push"`, `env X=1 sh -c "git push"`, "xargs git push", "echo push | xargs git", "timeout 5 git push", "command git push", "eval git push", "eval \"$X\"", "$X push", "g?t push", "git $X",
		"git \"$X\"", "if true; then git push; fi", "f() { git push; }; f", "find . -exec git push ;", "X=$(git push) ls", "sh -c \"$X\"", "alias g=git; g push", "ls 'unclosed", "git pu''sh", "ls <(git push)", "nohup git push &", "trap 'git push' EXIT", "while git push; do :; done",
		"sh -c 'sh -c \"git push\"'", "echo 'git push' | sh", "sh <<EOF\ngit push\nEOF", "sh -s < x", "cat x | bash -e", "python3 <<EOF\nx\nEOF", "echo x | node -", "sh -o errexit <<EOF\ngit push\nEOF",
		`python3 -c 'import os; os.system("git push")'`, `perl -e 'system("git","push")'`, `awk 'BEGIN{system("git push")}'`, "env -S 'git push'", "env -S'git push'", "env --split-string='git push'", "su -c 'git push' x", "ssh host 'cd x; git push'", "watch 'git push'",
		"sed -n 'e git push' x", "git -c alias.p=push p", "git -c ALIAS.p=push p", "git -c core.pager='git push' log", "git --config-env=alias.p=X p", "git config alias.p push", "git config --local alias.p '!git push'", "GIT_CONFIG_COUNT=1 git p", "PATH=/tmp/x ls",
		"export PATH=/tmp/x; ls", "env LD_PRELOAD=x ls"} {
		if d := permissions.Decide(given, command(line), true); d.Effect != permissions.Deny {
			t.Errorf("%q: %q", line, d.Effect)
		}
	}
	for line, want := range map[string]permissions.Effect{"git status": permissions.Allow, "git commit -m 'push it'": permissions.Allow, "echo git push": permissions.Allow, "rm x": permissions.Ask, "ls && rm -r x": permissions.Ask, "pushd x": permissions.Allow,
		"python3 build.py": permissions.Allow, "bash build.sh": permissions.Allow, "python3 -c 'print(1)'": permissions.Allow, "sed -n 1p x": permissions.Allow, "CI=1 npm test": permissions.Allow, "git -c user.name=x commit -m y": permissions.Allow, "GIT_AUTHOR_NAME=x git commit": permissions.Allow,
		"node --version": permissions.Allow} {
		if d := permissions.Decide(given, command(line), true); d.Effect != want {
			t.Errorf("%q: %q by %s", line, d.Effect, d.Rule)
		}
	}
	for _, args := range []string{`{"argv":["git","push"]}`, `{"command":"git p","env":{"GIT_CONFIG_COUNT":"1","GIT_CONFIG_KEY_0":"alias.p","GIT_CONFIG_VALUE_0":"push"}}`, `{"argv":["sh"]}`} {
		if d := permissions.Decide(given, permissions.NewCall(run, json.RawMessage(args), nil), true); d.Effect != permissions.Deny {
			t.Errorf("%s: %q", args, d.Effect)
		}
	}
}

// disk has links: what they lead to, by path.
type disk map[string]string

func (d disk) Stat(_ context.Context, p string) (guest.FileInfo, error) {
	to, ok := d[p]
	switch {
	case !ok:
		return guest.FileInfo{}, fault.New(fault.NotFound, "file_not_found", "none")
	case to == "!":
		return guest.FileInfo{}, errors.New("cut off")
	case to == "":
		return guest.FileInfo{Path: p, Type: "dir"}, nil
	}
	return guest.FileInfo{Path: p, Type: "symlink", Link: to}, nil
}

// Paths are matched as they are named and where they lead.
func TestPaths(t *testing.T) {
	t.Parallel()
	real := permissions.RealIn(t.Context(), disk{"src": "", "src/out": "../secret", "src/abs": "/repo/secret", "src/far": "/etc", "src/up": "../../x", "loop": "loop", "src/in": "sub", "src/sub": "", "in": "src/in", "cut": "!", "secret": "", "src/dots": "none/../../secret"}, "/repo")
	given := rules("allow files: src/**", "allow file_write: README.*", "deny files: secret/**", "ask file_write: **/*.lock")
	for p, want := range map[string]permissions.Effect{
		"src/a": permissions.Allow, "src/b/c": permissions.Allow, "./src//a": permissions.Allow, "/repo/src/a": permissions.Allow, "src/x/../a": permissions.Allow, "src/in/a": permissions.Allow, "README.md": permissions.Allow, "in/a": "",
		"SRC/a": "", "src": "", "other": "", "srcx/a": "", "sub/README.md": "", "src/../other": "",
		"secret/a": permissions.Deny, "SECRET/A": permissions.Deny, "src/../secret/a": permissions.Deny, "/repo/secret/a": permissions.Deny, "src/out/a": permissions.Deny, "src/abs/a": permissions.Deny, "src/dots/a": permissions.Deny,
		"src/far/passwd": permissions.Deny, "src/up": permissions.Deny, "loop": permissions.Deny, "../x": permissions.Deny, "/etc/passwd": permissions.Deny, "/repository/src/a": permissions.Deny, "cut/a": permissions.Deny, "": "",
		"src/go.lock": permissions.Ask, "a.LOCK": permissions.Ask, "ſecret/a": permissions.Deny,
	} {
		args, _ := json.Marshal(map[string]string{"path": p})
		if d := permissions.Decide(given, permissions.NewCall(write, args, real), true); d.Effect != want {
			t.Errorf("%q: %q by %s", p, d.Effect, d.Rule)
		}
	}
	for p, want := range map[string]permissions.Effect{"secret": permissions.Deny, "src": permissions.Allow, "src/sub": permissions.Allow, "": ""} { // a search
		args, _ := json.Marshal(map[string]string{"path": p})
		if d := permissions.Decide(rules("allow files: src/", "allow files: src", "deny files: secret/**"), permissions.NewCall(grep, args, real), true); d.Effect != want {
			t.Errorf("search in %q: %q by %s", p, d.Effect, d.Rule)
		}
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	given := rules("allow web: example.com", "allow web: *.docs.org", "deny web_fetch: *.internal", "deny web: xn--bcher-kva.example")
	for address, want := range map[string]permissions.Effect{
		"https://example.com/x": permissions.Allow, "http://EXAMPLE.com.:8080/": permissions.Allow, "https://a.b.docs.org": permissions.Allow,
		"https://docs.org": "", "https://evilexample.com": "", "https://example.com.evil.org": "", "https://example.com@evil.org/": "", "https://evil.org/example.com": "", "https://evil.org?example.com": "",
		"https://a.internal": permissions.Deny, "https://A.INTERNAL:1/": permissions.Deny, "https://bücher.example/": permissions.Deny, "https://example.com\\@evil.org": permissions.Deny, "ftp://example.com": permissions.Deny, "": permissions.Deny,
	} {
		args, _ := json.Marshal(map[string]string{"url": address})
		if d := permissions.Decide(given, permissions.NewCall(fetch, args, nil), true); d.Effect != want {
			t.Errorf("%q: %q by %s", address, d.Effect, d.Rule)
		}
	}
}

// Deny beats ask and ask beats allow, in whatever order and of whosever they are; what allows everything counts only where it is isolated.
func TestWhichRuleCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules    []permissions.Rule
		isolated bool
		want     permissions.Effect
	}{
		{rules("allow run_command: ls *", "deny commands"), true, permissions.Deny},
		{rules("allow run_command: ls *", "ask *", "deny run_command: rm *"), true, permissions.Ask},
		{rules("allow *"), true, permissions.Allow},
		{rules("allow *"), false, ""},
		{rules("allow commands"), false, ""},
		{rules("allow commands", "allow run_command: ls *"), false, permissions.Allow},
		{rules("allow run_command: ls"), false, permissions.Allow},
		{rules("allow files", "deny web", "ask code"), true, ""},
		{nil, true, ""},
	} {
		d := permissions.Decide(c.rules, command("ls"), c.isolated)
		if d.Effect != c.want {
			t.Errorf("%s, isolated %v: %q", c.rules, c.isolated, d.Effect)
		}
	}
	if d := permissions.Decide(rules("allow *"), command("ls"), false); !strings.Contains(d.Reason, "nothing isolates") {
		t.Errorf("%+v", d)
	}
	if d := permissions.Decide(rules("allow tasks"), permissions.NewCall(task, json.RawMessage(`{}`), nil), false); d.Effect != permissions.Allow {
		t.Errorf("%+v", d)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, r := range rules("allow run_command: git status *", "allow files: src/**", "allow files: src/", "deny web: *.example.com", "ask *", "deny code", "allow run_command: python3 x.py", "allow run_command: a; b", "deny run_command: python3 *", "allow run_command: npm run 'a b'") {
		if err := permissions.Check(r, specs); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	for _, r := range rules("permit run_command", "allow nothing", "allow *: x", "allow code: x", "allow tasks: x", "allow run_command: * x", "allow run_command: g?t", "allow run_command: sh *", "allow run_command: env *", "allow run_command: python3 *", "allow run_command: python3.12 *",
		"allow run_command: sudo git *", "allow run_command: find -exec *", "allow run_command: git -c *", "allow run_command:  x", "deny run_command: a; b", "deny run_command: 'x", "allow files: /etc/**", "allow files: ../x", "allow files: a/../b", "allow files: a//b",
		"allow web: https://x", "allow web: x/y", "allow web: *", "allow web: EXAMPLE.com", "allow run_command: "+strings.Repeat("x", 501)) {
		if err := permissions.Check(r, specs); fault.CodeOf(err) != "invalid_permission_rule" {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// What is suggested to a person allows the call that they were asked about, and nothing that they would not expect.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"go test ./...": {"go test *", "go *"}, "rm -r x": {"rm -r x", "rm *"}, "git -c a=b status": {"git -c a=b status", "git -c a=b status"}, "sh -c 'ls'": {"sh -c 'ls'", "sh -c 'ls'"},
		"ls && rm x": {"ls && rm x", "ls && rm x"}, "cd sub && npm test": {"npm test *", "npm *"}, "ls $X": {"ls $X", "ls $X"}, "python3 x.py": {"python3 x.py", "python3 x.py"}, "touch 'a b'": {"touch 'a b'", "touch *"},
	} {
		for i, wide := range []bool{false, true} {
			r, _ := permissions.Suggest(command(line), wide)
			r.ID = "x"
			if r.Pattern != want[i] || permissions.Check(r, specs) != nil {
				t.Errorf("%q: %q, %v", line, r.Pattern, permissions.Check(r, specs))
			}
			if d := permissions.Decide([]permissions.Rule{r}, command(line), false); d.Effect != permissions.Allow {
				t.Errorf("%q is not allowed by its suggestion %q: %s", line, r, d.Reason)
			}
		}
	}
	argv := permissions.NewCall(run, json.RawMessage(`{"argv":["sh","-c","a b; 'c'"]}`), nil)
	r, _ := permissions.Suggest(argv, true)
	if r.ID = "x"; permissions.Decide([]permissions.Rule{r}, argv, false).Effect != permissions.Allow {
		t.Errorf("argv: %q", r)
	}
	real := permissions.RealIn(t.Context(), disk{"l": "src"}, "/repo")
	for p, want := range map[string]string{"src/a/b": "src/**", "README.md": "README.md", "l/a": "", "a*b/c": "a?b/**"} {
		args, _ := json.Marshal(map[string]string{"path": p})
		if r, ok := permissions.Suggest(permissions.NewCall(write, args, real), false); r.Pattern != want || ok != (want != "") {
			t.Errorf("%q: %q", p, r.Pattern)
		}
	}
}

func TestReadsOnly(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"git status", "git --no-pager log --oneline -5", "git diff main...HEAD -- src", "ls -la", "cat a | head -5", "cd sub && ls", "find . -name '*.go'", "git branch -a", "grep -rn 'x' src", "git grep foo", "wc -l a 2>/dev/null", "rg -n x"} {
		args, _ := json.Marshal(map[string]string{"command": line})
		if !permissions.ReadsOnly(args) {
			t.Errorf("%q is refused", line)
		}
	}
	for _, line := range []string{"", "rm x", "cd sub && git show HEAD", "git push", "git branch new", "git branch -D x", "git diff --output=x", "git diff --out x", "git log --ext-diff", "git diff -O x", "git -c a=b log", "git grep -O x", "git cat-file --textconv x", "ls > x", "cat $X", "sort -o x y", "sort --output=x y", "sort -ro x y",
		"find . -exec rm ;", "find . -delete", "find . -fls x", "tail -f x", "sed -n 1p x", "awk 1 x", "env ls", "sh -c ls", "ls; rm x", "git stash", "git checkout x", "git config a b", "/tmp/ls", "./cat x", "X=1 ls", "ls & rm x", "tree -o x", "rg --pre x y", "file -C", "true"} {
		args, _ := json.Marshal(map[string]string{"command": line})
		if permissions.ReadsOnly(args) && line != "true" {
			t.Errorf("%q is let through", line)
		}
	}
	for _, args := range []string{`{"command":"ls","env":{"A":"b"}}`, `{"command":"ls","background":true}`, `{"command":"ls","cwd":"/"}`, `{"command":"git status","cwd":"evil.git"}`, `{}`, `x`} {
		if permissions.ReadsOnly(json.RawMessage(args)) {
			t.Errorf("%s is let through", args)
		}
	}
}
