//go:build linux && (amd64 || arm64)

package bubblewrap

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ofHost are the parts of the host's /etc that programs need and that reveal nothing about people: library paths, program alternatives and
// trusted certificates. Private keys lie next to the certificates, so each folder is named.
var ofHost = []string{
	"/etc/ld.so.cache", "/etc/alternatives", "/etc/services", "/etc/protocols",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates",
	"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/crypto-policies",
	"/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/fonts", "/etc/matplotlibrc",
}

// etc makes the sandbox's own /etc: users, name lookup and time zone.
func (p *plan) etc(hostNetwork bool) {
	p.file("/etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n%s:x:%d:%d:Agent:/home/%s:%s\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		insideUser, insideUID, insideUID, insideUser, shell()))
	p.file("/etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", insideUser, insideUID))
	p.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n")
	p.file("/etc/hostname", "parawork\n")
	if hostNetwork {
		p.file("/etc/hosts", hostFile("/etc/hosts"))
		p.file("/etc/resolv.conf", hostFile("/etc/resolv.conf"))
	} else {
		p.file("/etc/hosts", "127.0.0.1 localhost parawork\n::1 localhost ip6-localhost ip6-loopback\n")
		p.file("/etc/resolv.conf", "") // names are resolved outside, by the gate
	}
	p.file("/etc/shells", "/bin/sh\n/bin/bash\n")
	p.file("/etc/bash.bashrc", "[ -z \"$PS1\" ] || PS1='\\w\\$ '\n")
	p.file("/etc/profile", "[ -z \"$BASH_VERSION\" ] || . /etc/bash.bashrc\n")
	for _, path := range ofHost {
		p.system(path)
	}
	if _, err := os.Stat("/usr/lib/os-release"); err == nil {
		p.add("--symlink", "../usr/lib/os-release", "/etc/os-release")
	}
	if zone, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if strings.HasPrefix(zone, "/usr/") {
			p.add("--symlink", zone, "/etc/localtime")
		} else {
			p.add("--ro-bind-try", zone, "/etc/localtime")
		}
	}
}

// maxHostFile limits the files of the host that a sandbox gets a copy of.
const maxHostFile = 1 << 20

// hostFile reads one of the host's network files, "" where there is none.
func hostFile(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHostFile))
	if err != nil {
		return ""
	}
	return string(b)
}
