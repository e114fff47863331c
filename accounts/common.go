package accounts

// common are passwords of ten characters or more that are tried first, in lower case.
var common = []string{
	"0123456789", "1234567890", "12345678910", "123456789a", "123456789q", "1234567891", "0987654321", "9876543210",
	"1qaz2wsx3edc", "1q2w3e4r5t", "1q2w3e4r5t6y", "1qazxsw23edc", "q1w2e3r4t5", "q1w2e3r4t5y6", "zaq12wsxcde3",
	"qwertyuiop", "qwertzuiop", "azertyuiop", "qwerty1234", "qwerty12345", "qwerty123456", "asdfghjkl;", "asdfghjkl1",
	"asdfasdfasdf", "qweasdzxc123", "qwerasdfzxcv", "zxcvbnm123", "abcdefghij", "abcdefghijk", "abcdef1234", "abcd123456",
	"abc1234567", "abc123abc123", "123abc456def", "a123456789", "aa12345678", "q123456789", "11223344556", "1122334455",
	"password01", "password10", "password11", "password12", "password123", "password1234", "password12345", "password123!",
	"password1!", "password!1", "password!!", "password2024", "password2025", "password2026", "p@ssword123", "p@ssw0rd123",
	"p@ssw0rd1!", "passw0rd123", "passwordpassword", "mypassword", "mypassword1", "mypassword123", "yourpassword",
	"changeme123", "changeme1234", "changemenow", "changeit123", "letmein123", "letmein1234", "letmeinplease",
	"welcome123", "welcome1234", "welcome123!", "administrator", "administrator1", "admin12345", "admin123456", "adminadmin",
	"admin@1234", "rootrootroot", "rootpassword", "superuser1", "defaultpassword", "testtesttest", "testpassword", "test123456",
	"test1234567", "iloveyou123", "iloveyou12", "iloveyou1234", "sunshine123", "princess123", "football123", "baseball123",
	"superman123", "batman12345", "dragon12345", "monkey12345", "master12345", "shadow12345", "michael123", "jennifer123",
	"computer123", "internet123", "trustno1trustno1", "starwars123", "pokemon1234", "liverpool1", "liverpool123",
	"manchester", "barcelona1", "chelsea123", "letmeinnow", "secret1234", "secret12345", "topsecret1", "topsecret123",
	"opensesame", "parawork123", "parawork1234",
	"parawork12345", "paraworkparawork", "paraworkadmin", "qwertyqwerty", "zxcvbnmzxcvbnm", "1234512345", "1231231231",
	"123123123123", "1212121212", "123321123321", "987654321a", "147258369a", "1472583690", "159357159357", "741852963a",
}
