package config

import (
	"net"
	"net/mail"
	"net/netip"
)

// checkMail checks where mail is handed in. Its keys count together: a part of them is a mistake.
func (d *decoder) checkMail(c *Config) {
	m := c.Mail
	d.checkOneOf("mail.tls", m.TLS, "", "starttls", "tls", "none")
	if m.Port < 0 || m.Port > 65535 {
		d.problem("mail.port", "must be a port, 1 to 65535, or 0 for the usual one")
	}
	if m.Host == "" {
		if m.From != "" || m.Username != "" {
			d.problem("mail.host", "is required: the other keys of mail are for the server it names")
		}
		return
	}
	if !hostName.MatchString(m.Host) && net.ParseIP(m.Host) == nil {
		d.problem("mail.host", "must be the name of a mail server such as smtp.example.com; its port is mail.port")
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		d.problem("mail.from", `must be the sender address, such as "Parawork <parawork@example.com>"`)
	}
	if (m.Username == "") != (m.Password == "") {
		d.problem("mail.username", "and mail.password belong together")
	}
	if c.Server.PublicURL == "" {
		d.problem("server.publicUrl", "is required to send mail: links in mails start with it")
	}
	if m.TLS == "none" && !onThisMachine(m.Host) {
		d.problem("mail.tls", "can be none only for a mail server on this machine: otherwise links and the password cross the network unencrypted")
	}
}

func onThisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}
