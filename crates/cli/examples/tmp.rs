use cleveragents_cli::{config::*, output::*};
fn main() {
    let timing = Timing::start();
    let env = Environment::of_process();
    let surface = Surface::detect(&env);
    let format = choose(
        None,
        env.text("CLEVERAGENTS_FORMAT").as_deref(),
        None,
        &surface,
    );
    let printer = Printer::new(
        format
            .clone()
            .unwrap_or_else(|_| Format::automatic(&surface)),
        &surface,
    );
    let run = || -> Result<Report, CommandError> {
        format?;
        let home = Home::find(&env)?;
        let config = Configuration::load(&env, &home, Flags::none())?;
        let bar = Progress::bar(&printer, "import\u{1b}[31ming", 2000);
        let b = bar.clone();
        std::thread::spawn(move || {
            for i in 0..2000 {
                b.set(i);
                std::thread::sleep(std::time::Duration::from_micros(500));
            }
        })
        .join()
        .unwrap();
        bar.finish();
        let spin = Progress::spinner(&printer, "waiting");
        std::thread::sleep(std::time::Duration::from_millis(350));
        drop(spin);
        let mut panel = Panel::new("Config");
        for r in config.all()? {
            panel = panel.row(r.key.name, r.value.as_ref().map(|v| r.key.show(v)));
        }
        Ok(Report::new("config list").panel(panel).ok("done"))
    };
    let (mut o, mut e) = (std::io::stdout(), std::io::stderr());
    match run() {
        Ok(r) => printer.report(&r, timing, &mut o, &mut e).unwrap(),
        Err(x) => printer
            .error("config list", &x, timing, &mut o, &mut e)
            .unwrap(),
    }
}
