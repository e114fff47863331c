import { startLanguage } from "./language/start";
import "./styles/app.css";

void startLanguage(() => import("./language/de.po")).then(() => import("./start"));
