package permissions

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// ReadsOnly reports whether a call of run_command runs nothing but commands that are known to change nothing, with options that are known
// to change nothing. It is what the modes that change nothing may run.
func ReadsOnly(args json.RawMessage) bool {
	var a struct{ Background bool }
	l := lineOf(args)
	if json.Unmarshal(args, &a) != nil || a.Background || !l.certain || l.opaque || len(l.commands) == 0 {
		return false
	}
	for _, c := range l.commands {
		words := make([]string, len(c.words))
		for i, w := range c.words {
			if words[i] = w.text; !w.known {
				return false
			}
		}
		if !c.harmless() && !readsOnly(words) {
			return false
		}
	}
	return true
}

// readers are programs that change nothing, whatever their arguments are, except for the options that are named.
var readers = map[string][]string{
	"ls": nil, "cat": nil, "head": nil, "wc": nil, "stat": nil, "cut": nil, "tr": nil, "nl": nil, "basename": nil, "dirname": nil, "realpath": nil, "readlink": nil, "cmp": nil,
	"echo": nil, "grep": nil, "egrep": nil, "fgrep": nil, "diff": {"-l", "--paginate"}, "du": nil, "df": nil, "sha256sum": nil, "cksum": nil,
	"tail": {"-f", "-F", "--f", "--retry"}, "uname": nil, "which": nil, "id": nil, "comm": nil, "fold": nil, "expand": nil, "column": nil, "jq": nil,
	"rg": {"--pre", "--hostname-bin", "-z", "--search-zip"}, "sort": {"-o", "--o", "-T", "--t", "--c"},
	"find": {"-exec", "-ok", "-delete", "-fprint", "-fls"}, "tree": {"-o"}, "file": {"-C", "--compile"},
}

// gitReaders are Git's commands that change nothing, except with the options that are named. What would run programs of the repository's
// settings is refused for all.
var gitReaders = map[string][]string{
	"status": nil, "log": nil, "show": nil, "diff": nil, "blame": nil, "ls-files": nil, "ls-tree": nil, "rev-parse": nil, "rev-list": nil, "merge-base": nil, "describe": nil, "shortlog": nil,
	"cat-file": {"--textconv", "--filters"}, "diff-tree": nil, "name-rev": nil, "show-ref": nil, "for-each-ref": nil, "grep": {"-O", "--open-files-in-pager"}, "version": nil,
}

func readsOnly(words []string) bool {
	program, args := words[0], words[1:]
	if program == "git" {
		for len(args) > 0 && (args[0] == "--no-pager" || args[0] == "--no-optional-locks") {
			args = args[1:]
		}
		if len(args) == 0 {
			return false
		}
		if args[0] == "branch" { // lists only with these
			return !slices.ContainsFunc(args[1:], func(a string) bool {
				return !slices.Contains([]string{"-a", "-r", "-v", "-vv", "--all", "--remotes", "--list", "--show-current", "--verbose"}, a)
			})
		}
		without, ok := gitReaders[args[0]]
		return ok && !options(args[1:], slices.Concat(without, []string{"--output", "--ext-diff", "--textconv", "-O", "--exec"}))
	}
	without, ok := readers[program]
	return ok && path.Base(program) == program && !options(args, without)
}

// options reports whether one of the arguments begins as one of the options does, or has its letter among others.
func options(args, names []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			if strings.HasPrefix(a, n) || strings.HasPrefix(a, "--") && len(a) > 3 && strings.HasPrefix(n, strings.SplitN(a, "=", 2)[0]) { // also shortened
				return true
			}
			return len(n) == 2 && len(a) > 2 && a[0] == '-' && a[1] != '-' && strings.Contains(a[1:], n[1:])
		})
	})
}
