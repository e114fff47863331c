# The Python kernel: runs code in one interpreter that keeps its variables. Requests come as lines of JSON on file descriptor 3, what code
# displays goes as lines of JSON to 4; what code prints goes to the process's own output. It uses IPython where it can be imported.
import ast, asyncio, base64, builtins, codeop, inspect, io, json, linecache, os, re, signal, sys, traceback, types

REQUESTS, ANSWERS = 3, 4
MOST = 8 << 20  # bytes of one result


def _setup():
    for fd in (REQUESTS, ANSWERS):
        os.set_inheritable(fd, False)  # programs that code starts cannot answer in its place

    me = os.getpid()
    now = {"id": "", "running": False, "early": False}

    def send(**message):
        if os.getpid() != me:
            return  # a fork of this interpreter
        data = json.dumps(dict(message, id=now["id"]), default=str).encode() + b"\n"
        while data:
            data = data[os.write(ANSWERS, data):]

    def flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def show(bundle, main=False):
        out = {}
        for mime, data in bundle.items():
            if isinstance(data, bytes):
                data = base64.b64encode(data).decode()
            elif not isinstance(data, str) and not mime.endswith("json"):
                data = str(data)
            try:
                size = len(data if isinstance(data, str) else json.dumps(data, default=str))
            except Exception as e:
                mime, data, size = "text/plain", "(%s cannot be shown: %s)" % (mime, e), 0
            if size > MOST:
                mime, data = "text/plain", "(%s of %d bytes was left out: a result may have %d)" % (mime, size, MOST)
            out.setdefault(mime, data)
        if out:
            flush()
            send(type="result", data=out, main=main)

    def figures(*_args, **_kwargs):
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None or not hasattr(plt, "get_fignums"):
            return
        for number in plt.get_fignums():
            figure, to = plt.figure(number), io.BytesIO()
            figure.savefig(to, format="png", bbox_inches="tight")
            plt.close(figure)
            show({"image/png": to.getvalue(), "text/plain": repr(figure)})

    class Figures:
        """Makes matplotlib draw into memory, and its show() display what was drawn."""

        def find_spec(self, name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            import importlib.util
            sys.meta_path.remove(self)
            try:
                spec = importlib.util.find_spec(name)
            finally:
                sys.meta_path.insert(0, self)
            if spec is None or spec.loader is None:
                return spec
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                module.switch_backend("agg")
                module.show = figures

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Figures())

    def interrupted(_signal, _frame):
        if now["running"]:
            raise KeyboardInterrupt
        now["early"] = True  # meant for the next request, or late for the last one: the supervisor knows
    signal.signal(signal.SIGINT, interrupted)

    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    sys.argv = [""]

    try:
        run, version = _ipython(module, show, send)
    except Exception:
        run, version = _plain(module, show, send)

    send(type="ready", version="Python %d.%d.%d%s" % (sys.version_info[:3] + (version,)))
    with os.fdopen(REQUESTS, "rb") as requests:
        for line in requests:
            request = json.loads(line)
            now["id"] = request["id"]
            ok = False
            try:
                now["running"] = True
                if now["early"]:
                    now["early"] = False
                    send(type="begun")
                ok = run(request["code"], request["cell"])
                figures()
            except KeyboardInterrupt as e:
                _failed(e, send)
                ok = False
            except Exception as e:  # of drawing figures
                _failed(e, send)
                ok = False
            finally:
                now["running"] = False
            if os.getpid() != me:
                os._exit(0)  # a fork that code left running: it has no kernel
            flush()
            send(type="done", ok=ok)


def _failed(e, send, frames=None):
    text = "".join(frames) if frames else "".join(traceback.format_exception_only(type(e), e))
    send(type="error", error={"name": type(e).__name__, "value": str(e)[:10000], "traceback": text[:100000]})


def _ipython(module, show, send):
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config
    import IPython

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, **_kwargs):
            show(data)

        def clear_output(self, wait=False):
            pass

    class Hook(DisplayHook):
        def start_displayhook(self): pass
        def write_output_prompt(self): pass
        def write_format_data(self, format_dict, md_dict=None): show(format_dict, main=True)
        def finish_displayhook(self): pass

        def quiet(self):
            try:
                return super().quiet()
            except Exception:
                return False  # IPython's own syntax cannot be searched for a semicolon

    class Shell(InteractiveShell):
        def _showtraceback(self, etype, evalue, stb):
            _failed(evalue, send, "\n".join(stb) + "\n")

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    config.InteractiveShell.xmode = "Context"
    shell = Shell.instance(config=config, user_module=module, display_pub_class=Publisher, displayhook_class=Hook)
    shell.display_formatter.active_types = [t for t in shell.display_formatter.format_types]

    def transforms():
        to = shell.input_transformer_manager
        return [list(t) for t in (to.cleanup_transforms, to.line_transforms, to.token_transformers, shell.input_transformers_post)]

    own = transforms()

    def plain(code):
        """The tree of code that is Python without IPython's own syntax, and that nothing but itself watches."""
        called = shell.events.callbacks
        if shell.ast_transformers or transforms() != own or any(called.get(e) for e in ("pre_run_cell", "post_execute", "post_run_cell")):
            return None
        word = re.match(r"\s*(\w*)", code).group(1)
        if "\n" not in code.strip() and shell.find_line_magic(word):
            return None  # "ls -l" is Python, too
        try:
            tree = ast.parse(code)
            compile(tree, "<cell>", "exec")
        except Exception:
            return None  # a magic, await, or an error that IPython explains
        return tree

    def run(code, cell):
        shell.history_manager.input_hist_parsed[-1:] = [code]  # where it looks for a semicolon at the end
        tree = plain(code)
        if tree is None:
            return shell.run_cell(code, store_history=False).success
        shell.events.trigger("pre_execute")
        with shell.builtin_trap, shell.display_trap:
            name = shell.compile.cache(code, shell.execution_count, raw_code=code)
            nodes = shell.run_ast_nodes(tree.body, name, interactivity=shell.ast_node_interactivity, compiler=shell.compile)
            try:
                nodes.send(None)  # without await it ends at once
            except StopIteration as e:
                return not e.value
    return run, ", IPython %s" % IPython.__version__


def _plain(module, show, send):
    space = module.__dict__
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    methods = {"_repr_html_": "text/html", "_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg", "_repr_svg_": "image/svg+xml",
               "_repr_markdown_": "text/markdown", "_repr_latex_": "text/latex", "_repr_json_": "application/json"}

    def bundle(value):
        out = {}
        if not isinstance(value, type):
            whole = getattr(value, "_repr_mimebundle_", None)
            if callable(whole):
                got = whole()
                out.update((got[0] if isinstance(got, tuple) else got) or {})
            for name, mime in methods.items():
                method = getattr(value, name, None)
                if mime not in out and callable(method):
                    try:
                        got = method()
                    except NotImplementedError:
                        continue
                    if isinstance(got, tuple):
                        got = got[0]
                    if got is not None:
                        out[mime] = got
        out.setdefault("text/plain", repr(value))
        return out

    def display(*values):
        for value in values:
            show(bundle(value))
    builtins.display = display

    flags = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)  # since Python 3.8

    def finish(code):
        value = eval(code, space)
        if not inspect.iscoroutine(value):
            return value
        task = loop.create_task(value)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            task.cancel()
            try:
                loop.run_until_complete(task)
            except BaseException:
                pass
            raise

    def run(source, cell):
        name = "<cell %d>" % cell
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        try:
            tree = ast.parse(source, name)
            last = None
            if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
                last = ast.Expression(tree.body.pop().value)
            if tree.body:
                finish(compile(tree, name, "exec", flags))
            if last is not None:
                value = finish(compile(last, name, "eval", flags))
                if value is not None:
                    space["_"] = value
                    show(bundle(value), main=True)
            return True
        except BaseException as e:
            tb = e.__traceback__
            while tb is not None and tb.tb_frame.f_code.co_filename == "<kernel>":
                tb = tb.tb_next
            _failed(e, send, traceback.format_exception(type(e), e, tb))
            return False
    return run, ""


_setup()
