package images_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/images"
)

// What the engine is given has ids in the place of names, however these are written.
func TestADockerfileIsWrittenAnew(t *testing.T) {
	t.Parallel()
	const label = "\nLABEL parawork.project=prj_1\n"
	cases := map[string]struct{ text, want string }{ // want: "!" and a word of the reason
		"stages":        {"FROM x AS Build\nRUN make\nFROM y\nCOPY --from=build --chown=1:1 /a /b\nCOPY --from=0 /c /d\n", "FROM sha256:id-of-x AS build" + label + "RUN make\nFROM sha256:id-of-y" + label + "COPY --from=build --chown=1:1 /a /b\nCOPY --from=0 /c /d\n"},
		"upon a stage":  {"FROM x AS a\nFROM A\n", "FROM sha256:id-of-x AS a" + label + "FROM a" + label},
		"scratch":       {"FROM scratch\nCOPY --from=y / /\n", "FROM scratch" + label + "COPY --from=sha256:id-of-y / /\n"},
		"arguments":     {"ARG V=22\nARG N=\"no\"'de' OTHER\nFROM ${N}:${V} AS a\nARG V\nRUN echo $V\n", "ARG V=22\nARG N=\"no\"'de' OTHER\nFROM sha256:id-of-node:22 AS a" + label + "ARG V\nRUN echo $V\n"},
		"defaults":      {"ARG A\nARG B=b\nFROM ${A:-x${B:+y}}\n", "ARG A\nARG B=b\nFROM sha256:id-of-xy" + label},
		"no colon":      {"ARG A=\nFROM x${A-y}${A+z}\n", "ARG A=\nFROM sha256:id-of-xz" + label},
		"platform":      {"ARG P=linux/amd64\nFROM --platform=$P x\n", "ARG P=linux/amd64\nFROM --platform=linux/amd64 sha256:id-of-x" + label},
		"no platform":   {"FROM --platform=$BUILDPLATFORM x\n", "FROM sha256:id-of-x" + label},
		"continued":     {"\ufeff# syntax=evil/frontend\n  from \\  \r\n\n # comment\n\tx \\\n as a\nRUN a \\\n# comment\n  && b\n", "FROM sha256:id-of-x AS a" + label + "RUN a   && b\n"},
		"escape":        {"# escape=`\nFROM `\nx\nRUN dir C:\\\nRUN b\n", "# escape=`\nFROM sha256:id-of-x" + label + "RUN dir C:\\\nRUN b\n"},
		"add":           {"FROM x\nADD app-${V}.tar.gz [a] /\nADD [\"a b\", \"/c\"]\n", "FROM sha256:id-of-x" + label + "ADD app-${V}.tar.gz [a] /\nADD [\"a b\", \"/c\"]\n"},
		"trigger":       {"FROM x\nONBUILD RUN make\n", "FROM sha256:id-of-x" + label + "ONBUILD RUN make\n"},
		"ids":           {"FROM 0123456789ab\n", "!id"},
		"id's beginnin": {"ARG A=1\nFROM ${A}b\n", "!id"},
		"number":        {"FROM x\nCOPY --from=1 / /\n", "!id"},
		"itself":        {"FROM x AS st\nCOPY --from=st / /\n", "FROM sha256:id-of-x AS st" + label + "COPY --from=sha256:id-of-st / /\n"},
		"variable from": {"FROM x\nCOPY --from=$A / /\n", "!no valid"},
		"quoted flag":   {"FROM x\nCOPY --from=\"y\" / /\n", "!quotes"},
		"quoted name":   {"FROM 'parawork-project'-prj_2:a\n", "!another project"},
		"no value":      {"ARG A\nFROM $A\n", "!no value"},
		"strange":       {"ARG A=x\nFROM ${A%x}\n", "!cannot be understood"},
		"unknown":       {"FROM x\nFRÖM y\n", "!no instruction"},
		"before":        {"RUN a\nFROM x\n", "!before the first FROM"},
		"no from":       {"# nothing\n", "!no FROM"},
		"heredoc":       {"FROM x\nRUN <<EOF\nFROM y\nEOF\n", "!heredoc"},
		"mount":         {"FROM x\nRUN --mount=type=bind,from=y,target=/y true\n", "!BuildKit"},
		"fetch":         {"FROM x\nADD HTTP://10.0.0.1/ /\n", "!download"},
		"hidden fetch":  {"FROM x\nARG U=http\nADD h${U} /\n", "!download"},
		"json fetch":    {"FROM x\nADD [\"ht\\u0074p://10.0.0.1/\", \"/\"]\n", "!download"},
		"git":           {"FROM x\nADD git@example.com:a/b /\n", "!download"},
		"label":         {"FROM x\nLABEL parawork.project=prj_2\n", "!labels"},
		"trigger names": {"FROM x\nONBUILD COPY --from=y / /\n", "!ONBUILD"},
		"trigger mount": {"FROM x\nONBUILD RUN --mount=from=y true\n", "!BuildKit"},
		"base triggers": {"FROM triggers\n", "!ONBUILD"},
	}
	files := map[string]string{}
	for name, c := range cases {
		files[strings.ReplaceAll(name, " ", "-")+"/Dockerfile"] = c.text
	}
	w := newWorkshop(t, files)
	w.have["triggers"] = images.Image{ID: "sha256:t", Tags: []string{"triggers"}, Project: "prj_1", Triggers: []string{"COPY --from=y / /"}}
	for name, c := range cases {
		b, lines := w.build(strings.ReplaceAll(name, " ", "-") + "/Dockerfile")
		if word, refused := strings.CutPrefix(c.want, "!"); refused {
			if b.State != images.Failed || !strings.Contains(b.Reason, word) {
				t.Errorf("%s: %+v, want a refusal with %q", name, b, word)
			}
			continue
		}
		if b.State != images.Ready {
			t.Errorf("%s: %+v", name, b)
			continue
		}
		if g := <-w.orders; g.files[".parawork.Dockerfile"] != c.want {
			t.Errorf("%s: given\n%s\nwant\n%s", name, g.files[".parawork.Dockerfile"], c.want)
		}
		if name == "continued" && !strings.Contains(strings.Join(lines, "\n"), "evil/frontend") {
			t.Errorf("%s: the frontend is left out silently: %q", name, lines)
		}
	}
}
