import { startLanguage } from "./language/start";
import "./styles/app.css";

void startLanguage().then(() => import("./start"));
