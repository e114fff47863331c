package password

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
)

// seen are passwords of ten characters and more that stand high in lists of leaked ones.
const seen = `0123456789 1234567890 12345678910 123456789a 123456789q 1234567891 0987654321 9876543210 1qaz2wsx3edc 1q2w3e4r5t 1q2w3e4r5t6y
1qazxsw23edc q1w2e3r4t5 q1w2e3r4t5y6 zaq12wsxcde3 qwertyuiop qwertzuiop azertyuiop qwerty1234 qwerty12345 qwerty123456 asdfghjkl; asdfghjkl1 asdfasdfasdf
qweasdzxc123 qwerasdfzxcv zxcvbnm123 abcdefghij abcdefghijk abcdef1234 abcd123456 abc1234567 abc123abc123 a123456789 aa12345678 q123456789 1122334455
password01 password10 password12 password123 password1234 password12345 password123! password1! password!1 password!! password2024 password2031
p@ssword123 p@ssw0rd123 p@ssw0rd1! passw0rd123 passwordpassword mypassword mypassword1 yourpassword changeme123 changeme1234 changemenow changeit123
letmein123 letmein1234 letmeinplease welcome123 welcome123! administrator administrator1 admin12345 admin123456 adminadmin admin@1234 rootrootroot
rootpassword superuser1 defaultpassword testtesttest testpassword test123456 iloveyou123 iloveyou12 sunshine123 princess123 football123 baseball123
superman123 batman12345 dragon12345 monkey12345 master12345 shadow12345 michael123 jennifer123 computer123 internet123 trustno1trustno1 starwars123 pokemon1234
liverpool1 manchester barcelona1 chelsea123 secret1234 topsecret1 opensesame parawork123 paraworkadmin qwertyqwerty zxcvbnmzxcvbnm 1234512345 1231231231
123123123123 1212121212 123321123321 147258369a 1472583690 159357159357 741852963a summer2026! winter2025!! l1v3rp00l2026`

func TestASVS_6_2_4_CommonPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for p := range strings.FieldsSeq(seen) {
		if !isCommon(p, nil) {
			t.Errorf("%s is taken", p)
		}
	}
	// What lists of the most used ones are made of: more than three thousand that are long enough.
	n := 0
	for w := range strings.FieldsSeq(commonWords) {
		for _, end := range []string{"1", "12", "123", "1234", "12345", "123456", "1!", "123!", "2025", "2026!", "2031", "!!!", "@123", w} {
			p := w + end
			if len(p) < Min {
				continue
			}
			if n++; CheckNew(p, "") == nil {
				t.Errorf("%s is taken", p)
			}
		}
	}
	if n < 3000 {
		t.Errorf("only %d were tried", n)
	}
	for _, good := range []string{"nine lives and a hat", "correct horse battery", "xk2-vm9q-ttr4", "Fjord4Lantern!moss", "another good one", "a new and good one",
		"tr0ub4dor&3x", "7h4nkf00lzq", "мой дом у реки", "wet socks 1987 dry", "8f3a9c1e7b"} {
		if isCommon(strings.ToLower(good), nil) || isLeaked(strings.ToLower(good)) {
			t.Errorf("%s is refused", good)
		}
	}
}

// Leaked ones are refused as they are and with what people add; the cause is named, and what one's own words make is one's own cause.
func TestASVS_6_2_12_LeakedAndPersonalPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]string{
		"usuckballz1":             "leaked",
		"USuckBallz1":             "leaked",
		"usuckballz1!":            "leaked",
		"usuckballz12026":         "leaked",
		"4815162342":              "leaked",
		"123qweasdzxc":            "leaked",
		"Harbour2026!":            "personal",
		"h4rb0ur-mika":            "personal",
		"mika.lindqvist":          "personal",
		"LindqvistMika!99":        "personal",
		"mika@lighthouse":         "personal",
		"qwerty":                  "short",
		"aaaaaaaaaaab":            "few_characters",
		"dragon-monkey2031":       "common",
		"nine lives and a hat":    "",
		"a mika in the fog sings": "",
		"xk2-vm9q-ttr4":           "",
	} {
		err := CheckNew(password, "mika.lindqvist@lighthouse.example", "Mika Lindqvist", "Harbour")
		got := ""
		if f := (*fault.Error)(nil); errors.As(err, &f) {
			got, _ = f.Details["reason"].(string)
		}
		if got != want {
			t.Errorf("%q: %q (%v), want %q", password, got, err, want)
		}
	}
	// Of passwords that nobody chose none is taken for a leaked one, but for one in 100,000.
	wrong := 0
	for i := range 20_000 {
		if isLeaked(fmt.Sprintf("fjord %d lantern moss", i)) {
			wrong++
		}
	}
	if wrong > 5 {
		t.Errorf("%d of 20,000 good passwords are taken for leaked ones", wrong)
	}
}
