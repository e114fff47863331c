package screen

// Character sets that programs may select instead of ASCII. 0 is ASCII. A set is named by the first of its letters in
// charsetNames.
const charsetNames = "B0A45RQKY6Z7="

// charsetOf returns the set a final byte names; false for none.
func charsetOf(final byte) (uint8, bool) {
	switch final {
	case 'C':
		final = '5'
	case 'E':
		final = '6'
	case 'H':
		final = '7'
	}
	for i := range len(charsetNames) {
		if charsetNames[i] == final {
			return uint8(i), true
		}
	}
	return 0, false
}

type charset [128]uint16

// charsets maps the characters of each set to their replacements; 0 is the character itself.
var charsets = [len(charsetNames)]charset{
	1:  set("`◆a▒b␉c␌d␍e␊f°g±h␤i␋j┘k┐l┌m└n┼o⎺p⎻q─r⎼s⎽t├u┤v┴w┬x│y≤z≥{π|≠}£~·"),
	2:  set("#£"),
	3:  set("#£@¾[i\\½]|{¨|f}¼~´"),
	4:  set("[Ä\\Ö]Å^Ü`é{ä|ö}å~ü"),
	5:  set("#£@à[°\\ç]§{é|ù}è~¨"),
	6:  set("@à[â\\ç]ê^î`ô{é|ù}è~û"),
	7:  set("@§[Ä\\Ö]Ü{ä|ö}ü~ß"),
	8:  set("#£@§[°\\ç]é`ù{à|ò}è~ì"),
	9:  set("@Ä[Æ\\Ø]Å^Ü`ä{æ|ø}å~ü"),
	10: set("#£@§[¡\\Ñ]¿{°|ñ}ç"),
	11: set("@É[Ä\\Ö]Å^Ü`é{ä|ö}å~ü"),
	12: set("#ù@à[é\\ç]ê^î_è`ô{ä|ö}ü~û"),
}

// set builds a character set from pairs: a character and its replacement.
func set(pairs string) charset {
	var c charset
	from := rune(0)
	for _, r := range pairs {
		if from == 0 {
			from = r
			continue
		}
		c[from], from = uint16(r), 0
	}
	return c
}
